package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
)

// facts are all inputs of the decision to sign: the contents of the signer directory, read while it is locked, and then
// one snapshot of the database.
type facts struct {
	directory uuid.UUID     // id of the locked signer directory
	signer    uuid.NullUUID // id of the signer directory of the origin; none: the database does not know the origin
	noted     *tlog.Tree    // newest note of the origin in the directory
	last      *tlog.Tree    // newest checkpoint of the origin in the database
	lastAge   time.Duration // since it was signed
	known     *tlog.Tree    // newest note of the origin that this process has seen in the directory
	tree      tlog.Tree     // the sealed tree
	unsealed  bool          // the log has more events than the tree
	reported  bool          // the database has the error of a signer; it does not count
}

// decide reports whether to sign the tree now. It fails with ErrDirectory for a directory that must not sign, with
// ErrForked for a tree that does not extend the signed ones, and with other errors of extends. extends fails with
// ErrForked unless the tree extends older, which is not larger.
func (f *facts) decide(extends func(older tlog.Tree) error) (sign bool, err error) {
	if !f.signer.Valid || f.signer.UUID != f.directory {
		return false, otherDirectory(f.directory, f.signer)
	}
	// A note is stored in the directory before the database, so the directory of the origin is never behind.
	if f.last != nil && (f.noted == nil || f.noted.N < f.last.N) {
		noted := int64(0)
		if f.noted != nil {
			noted = f.noted.N
		}
		return false, fmt.Errorf("%w: it knows of %d signed entries, and the database of %d: it is a copy, or was restored "+
			"from one; use the original, or start a new origin", ErrDirectory, noted, f.last.N)
	}
	for _, older := range []*tlog.Tree{f.known, f.noted, f.last} {
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

// otherDirectory is the error of a directory that is not the one of the origin.
func otherDirectory(directory uuid.UUID, signer uuid.NullUUID) error {
	if !signer.Valid {
		return fmt.Errorf("%w: the database does not have the origin; restart this replica to start it again", ErrDirectory)
	}
	return fmt.Errorf("%w: it is %s, and %s signs this origin", ErrDirectory, directory, signer.UUID)
}

// refused reports whether signing needs an operator to continue.
func refused(err error) bool { return errors.Is(err, ErrForked) || errors.Is(err, ErrDirectory) }
