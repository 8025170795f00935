package ledger

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"time"

	"novelgate/internal/database"
)

//go:embed status.sql
var statusSQL string

// LagLimit is how many unsealed events ReadStatus counts at most.
const LagLimit = 100_000

// Status says how far the ledger has come.
type Status struct {
	Size     int64     `json:"size"` // entries in the tree
	Root     string    `json:"root"` // their Merkle tree hash, base64
	SealedAt time.Time `json:"sealedAt"`
	// settled events that are not in the tree yet, at most LagLimit
	UnsealedEvents int64      `json:"unsealedEvents"`
	UnsealedCapped bool       `json:"unsealedEventsCapped"` // there are more than UnsealedEvents
	LagSeconds     float64    `json:"lagSeconds"`           // age of the oldest of them; 0 when there are none
	Error          *string    `json:"error"`                // why sealing does not go on
	Origin         *string    `json:"origin"`               // null before a replica has started
	Memory         *string    `json:"memory"`               // that signs for the origin; null while none does
	CheckpointSize *int64     `json:"checkpointSize"`       // entries that are signed; null while nothing is
	CheckpointAge  *float64   `json:"checkpointAgeSeconds"` // since it was signed
	SignedAt       *time.Time `json:"signedAt"`
	VerifierKeys   []string   `json:"verifierKeys"` // that the checkpoint is signed with
}

// ReadStatus asks the database.
func ReadStatus(ctx context.Context, db database.Querier) (Status, error) {
	var st Status
	var signed *string
	s, err := scanState(db.QueryRow(ctx, statusSQL, LagLimit+1), &st.SealedAt, &st.Error, &st.UnsealedEvents,
		&st.LagSeconds,
		&st.Origin, &st.Memory, &st.CheckpointSize, &st.SignedAt, &st.CheckpointAge, &signed)
	if err != nil {
		return Status{}, fmt.Errorf("status of the ledger: %w", err)
	}
	st.Size, st.Root = s.size, base64.StdEncoding.EncodeToString(s.root[:])
	st.UnsealedCapped = st.UnsealedEvents > LagLimit
	st.UnsealedEvents = min(st.UnsealedEvents, LagLimit)
	st.VerifierKeys = []string{}
	if signed != nil {
		keys, err := NewStore(db).VerifierKeys(ctx, Checkpoint{Origin: *st.Origin, Note: []byte(*signed)})
		if err != nil {
			return Status{}, err
		}
		st.VerifierKeys = append(st.VerifierKeys, keys...)
	}
	return st, nil
}
