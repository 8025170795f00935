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
	Origin         *string    `json:"origin"`               // null before a replica has started
	Signer         *string    `json:"signer"`               // id of the signer directory of the origin; null without an origin
	CheckpointSize *int64     `json:"checkpointSize"`       // signed entries; null before the first checkpoint
	CheckpointAge  *float64   `json:"checkpointAgeSeconds"` // seconds since it was signed
	SignedAt       *time.Time `json:"signedAt"`
	VerifierKeys   []string   `json:"verifierKeys"` // of the signatures of the checkpoint
}

// ReadStatus reads the status.
func ReadStatus(ctx context.Context, db database.Querier) (Status, error) {
	var st Status
	var signed *string
	tree, err := scanTree(db.QueryRow(ctx, statusSQL), &st.SealedAt, &st.Error, &st.UnsealedEvents, &st.LagSeconds,
		&st.Origin, &st.Signer, &st.CheckpointSize, &st.SignedAt, &st.CheckpointAge, &signed)
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
