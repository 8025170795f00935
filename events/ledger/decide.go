package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
)

// facts are all inputs of the decision to sign: the contents of the memory, read while it is locked, and then one
// snapshot of the database.
type facts struct {
	memory     uuid.UUID     // memory of this replica
	keyMemory  uuid.NullUUID // memory that the key file names; none: the key is older than memories
	bound      uuid.NullUUID // memory that the database binds to the origin
	remembered *tlog.Tree    // newest checkpoint of the origin in the memory
	last       *tlog.Tree    // newest checkpoint of the origin in the database
	lastAge    time.Duration // since it was signed
	known      *tlog.Tree    // newest checkpoint of the origin that this process has seen in the memory
	tree       tlog.Tree     // the sealed tree
	unsealed   bool          // the log has more events than the tree
}

// checkBinding fails with ErrMemory if the memory must not sign for the origin: the key names another memory, the
// database binds the origin to another memory, or it binds it to none and this memory lacks its newest checkpoint.
func (f *facts) checkBinding() error {
	switch {
	case f.keyMemory.Valid && f.keyMemory.UUID != f.memory:
		return fmt.Errorf("%w: the key belongs to the memory %s, and this one is %s",
			ErrMemory, f.keyMemory.UUID, f.memory)
	case f.bound.Valid && f.bound.UUID != f.memory:
		return fmt.Errorf("%w: the memory %s signs for this origin, and this one is %s",
			ErrMemory, f.bound.UUID, f.memory)
	case f.bound.Valid || f.last == nil:
		return nil
	case f.remembered == nil:
		return fmt.Errorf("%w: it has no checkpoint of this origin, and %d entries were signed", ErrMemory, f.last.N)
	case f.remembered.N < f.last.N || f.remembered.N == f.last.N && f.remembered.Hash != f.last.Hash:
		return fmt.Errorf("%w: its newest checkpoint covers %d entries and is not that of the database, which covers %d",
			ErrMemory, f.remembered.N, f.last.N)
	}
	return nil
}

// decide reports whether to sign the tree now. It fails with ErrMemory for a memory that must not sign, with ErrForked
// for a tree that does not extend the signed ones, and with other errors of extends. extends fails with ErrForked
// unless the tree extends older, which is not larger.
func (f *facts) decide(extends func(older tlog.Tree) error) (sign bool, err error) {
	if err := f.checkBinding(); err != nil {
		return false, err
	}
	if !f.bound.Valid {
		return false, fmt.Errorf("%w: the database has no memory for this origin; restart this replica to record this one",
			ErrMemory)
	}
	// A checkpoint is stored in the memory before the database, so the memory of the origin is never behind.
	if f.last != nil && (f.remembered == nil || f.remembered.N < f.last.N) {
		remembered := int64(0)
		if f.remembered != nil {
			remembered = f.remembered.N
		}
		return false, fmt.Errorf("%w: it knows of %d signed entries, and the database of %d: it is a copy, or was restored "+
			"from one; use the original, or start a new origin", ErrMemory, remembered, f.last.N)
	}
	for _, older := range []*tlog.Tree{f.known, f.remembered, f.last} {
		switch {
		case older == nil:
		case older.N <= f.tree.N:
			if err := extends(*older); err != nil {
				return false, err
			}
		// After a crash, the tree may be smaller than the signed one until its events are sealed again: the commit of a
		// seal does not wait for the disk, the commit of an event does.
		case f.unsealed:
			return false, nil
		default:
			return false, fmt.Errorf("%w: it has %d entries, and %d were signed", ErrForked, f.tree.N, older.N)
		}
	}
	return f.last == nil || f.last.N != f.tree.N, nil
}

// refused reports whether signing needs an operator to continue.
func refused(err error) bool { return errors.Is(err, ErrForked) || errors.Is(err, ErrMemory) }
