package ledger

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// state is the state of the ledger.
type state struct {
	size     int64
	root     tlog.Hash
	position events.Position   // of the last sealed event
	log      eventlog.Identity // log of this position
}

const readStateSQL = `SELECT tree_size, root_hash, transaction_id, position, ` + eventlog.IdentitySQL +
	` FROM ledger_state`

// lockStateSQL locks and reads the state; it returns no row while another session seals. The transaction can be
// repeated from the log and gives the same bytes, so its commit need not wait for the disk.
const lockStateSQL = `SELECT tree_size, root_hash, transaction_id, position, ` + eventlog.IdentitySQL + `, set_config('synchronous_commit', 'off', true)
FROM ledger_state FOR NO KEY UPDATE SKIP LOCKED`

const saveStateSQL = `UPDATE ledger_state
SET tree_size = $1, root_hash = $2, transaction_id = $3, position = $4, sealed_at = statement_timestamp(), error = NULL, error_at = NULL`

// recordErrorSQL records an error of sealing, unless the tree has grown since. $1: error, $2: size of the tree.
const recordErrorSQL = `UPDATE ledger_state SET error = $1, error_at = statement_timestamp() WHERE tree_size = $2`

// scanState scans a row that begins with the columns of readStateSQL, except the identity of the log.
func scanState(row pgx.Row, more ...any) (state, error) {
	var s state
	var root []byte
	if err := row.Scan(append([]any{&s.size, &root, &s.position.TransactionID, &s.position.Ordinal},
		more...)...); err != nil {
		return state{}, fmt.Errorf("read state of the ledger: %w", err)
	}
	copy(s.root[:], root)
	return s, nil
}

func readState(ctx context.Context, db database.Querier) (state, error) {
	return scanStateAndLog(db.QueryRow(ctx, readStateSQL))
}

// scanStateAndLog scans a row that begins with the columns of readStateSQL.
func scanStateAndLog(row pgx.Row, more ...any) (state, error) {
	var log eventlog.Identity
	s, err := scanState(row, append([]any{&log}, more...)...)
	s.log = log
	return s, err
}

//go:embed status.sql
var statusSQL string

// LagLimit is the maximum number of unsealed events that ReadStatus counts.
const LagLimit = 100_000

// Status is the status of the ledger.
type Status struct {
	Size     int64     `json:"size"` // entries in the tree
	Root     string    `json:"root"` // their Merkle tree hash, base64
	SealedAt time.Time `json:"sealedAt"`
	// settled events that are not in the tree yet, at most LagLimit
	UnsealedEvents int64      `json:"unsealedEvents"`
	UnsealedCapped bool       `json:"unsealedEventsCapped"` // there are more than UnsealedEvents
	LagSeconds     float64    `json:"lagSeconds"`           // age of the oldest event that is not in the tree, settled or not; 0 without any
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
	s, err := scanState(db.QueryRow(ctx, statusSQL, LagLimit+1), &st.SealedAt, &st.Error, &st.UnsealedEvents,
		&st.LagSeconds,
		&st.Origin, &st.Signer, &st.CheckpointSize, &st.SignedAt, &st.CheckpointAge, &signed)
	if err != nil {
		return Status{}, fmt.Errorf("status of the ledger: %w", err)
	}
	st.Size, st.Root = s.size, base64.StdEncoding.EncodeToString(s.root[:])
	st.UnsealedCapped = st.UnsealedEvents > LagLimit
	st.UnsealedEvents = min(st.UnsealedEvents, LagLimit)
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

// Sealed is the sealed part of the log, for readers by log index.
type Sealed struct {
	Size     int64             // entries in the tree
	Position events.Position   // of the last one
	Log      eventlog.Identity // log of this position
	Unsealed bool              // the log has events after it, settled or not
	Origins  []string          // of its checkpoints; the last one is the current origin
}

// Origin returns the current origin; "" before a replica has started.
func (s *Sealed) Origin() string {
	if len(s.Origins) == 0 {
		return ""
	}
	return s.Origins[len(s.Origins)-1]
}

const sealedStateSQL = `SELECT s.tree_size, s.transaction_id, s.position, ` + eventlog.IdentitySQL + `,
    EXISTS (SELECT FROM events AS e WHERE (e.transaction_id, e.position) > (s.transaction_id, s.position)),
    ARRAY (SELECT origin FROM ledger_origins ORDER BY ordinal)
FROM ledger_state AS s`

// ReadSealed reads the sealed part of the log. It returns when this part survives a failover to a synchronous standby.
func ReadSealed(ctx context.Context, db database.DB) (s Sealed, err error) {
	var batch pgx.Batch
	batch.Queue(sealedStateSQL).QueryRow(func(row pgx.Row) error {
		return row.Scan(&s.Size, &s.Position.TransactionID, &s.Position.Ordinal, &s.Log, &s.Unsealed, &s.Origins)
	})
	eventlog.QueueReplicated(&batch)
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return Sealed{}, fmt.Errorf("read the sealed part of the log: %w", err)
	}
	return s, nil
}
