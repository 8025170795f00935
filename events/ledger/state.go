package ledger

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/internal/database"
)

const treeSQL = `SELECT tree_size, root_hash FROM ledger_state`

// Tree returns the sealed tree. Its size is also the position of the sealer in the log.
func (s *Store) Tree(ctx context.Context) (tlog.Tree, error) {
	return scanTree(s.db.QueryRow(ctx, treeSQL))
}

// scanTree scans a row that begins with the columns of treeSQL.
func scanTree(row pgx.Row, more ...any) (tree tlog.Tree, err error) {
	var root []byte
	if err := row.Scan(append([]any{&tree.N, &root}, more...)...); err != nil {
		return tlog.Tree{}, fmt.Errorf("read state of the ledger: %w", err)
	}
	copy(tree.Hash[:], root)
	return tree, nil
}

//go:embed status.sql
var statusSQL string

// Status is the status of the ledger.
type Status struct {
	Size           int64      `json:"size"` // entries in the tree
	Root           string     `json:"root"` // their Merkle tree hash, base64
	SealedAt       time.Time  `json:"sealedAt"`
	UnsealedEvents int64      `json:"unsealedEvents"`       // events that are not in the tree yet
	LagSeconds     float64    `json:"lagSeconds"`           // age of the oldest of them; 0 without any
	Error          *string    `json:"error"`                // why sealing does not continue
	SigningError   *string    `json:"signingError"`         // why a replica does not sign; null as soon as one signs again
	VerifiedAt     time.Time  `json:"-"`                    // last success of events verify, at first when the ledger began
	Origin         *string    `json:"origin"`               // null before a replica has started
	Signer         *string    `json:"signer"`               // id of the signer directory of the origin; null without an origin
	CheckpointSize *int64     `json:"checkpointSize"`       // signed entries; null before the first checkpoint
	CheckpointAge  *float64   `json:"checkpointAgeSeconds"` // seconds since it was signed
	SignedAt       *time.Time `json:"signedAt"`
	VerifierKeys   []string   `json:"verifierKeys"` // of the signatures of the checkpoint
}

// Trouble returns why the ledger is not sealed or signed, for an operator.
func (st *Status) Trouble() (reasons []string) {
	if st.Error != nil {
		reasons = append(reasons, "not sealed: "+*st.Error)
	}
	if st.SigningError != nil {
		reasons = append(reasons, "not signed: "+*st.SigningError)
	}
	return reasons
}

// recordSigningErrorSQL records why a replica does not sign, or that one signs: NULL.
const recordSigningErrorSQL = `UPDATE ledger_state SET signing_error = $1`

// recordVerifiedSQL records that the history was verified.
const recordVerifiedSQL = `UPDATE ledger_state SET verified_at = statement_timestamp()`

// RecordVerified records that the history of the database has just been verified.
func RecordVerified(ctx context.Context, db database.Execer) error {
	if _, err := db.Exec(ctx, recordVerifiedSQL); err != nil {
		return fmt.Errorf("record the verification: %w", err)
	}
	return nil
}

// ReadStatus reads the status.
func ReadStatus(ctx context.Context, db database.Querier) (Status, error) {
	var st Status
	var signed *string
	tree, err := scanTree(db.QueryRow(ctx, statusSQL), &st.SealedAt, &st.Error, &st.SigningError, &st.VerifiedAt,
		&st.UnsealedEvents, &st.LagSeconds, &st.Origin, &st.Signer, &st.CheckpointSize, &st.SignedAt, &st.CheckpointAge,
		&signed)
	if err != nil {
		return Status{}, fmt.Errorf("status of the ledger: %w", err)
	}
	st.Size, st.Root = tree.N, base64.StdEncoding.EncodeToString(tree.Hash[:])
	st.VerifierKeys = []string{}
	if signed != nil {
		keys, err := NewStore(db).SignersOf(ctx, Checkpoint{Origin: *st.Origin, Note: []byte(*signed)})
		if err != nil {
			return Status{}, err
		}
		st.VerifierKeys = append(st.VerifierKeys, keys...)
	}
	return st, nil
}
