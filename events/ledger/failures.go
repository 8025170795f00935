package ledger

import (
	"novelgate/events/eventlog"
)

// failures says which of a signer's failures in a row are logged: the first one of a kind, and one a minute of those
// that go on.
type failures struct {
	kind  failureKind
	count int // of that kind, without a break
}

type failureKind int

const (
	failedOtherwise failureKind = iota
	failedAway                  // the database could not be asked
	failedRefused               // the tree or the memory is not what was signed
)

// due takes the outcome of an attempt, and reports whether it is to be logged. Success is not.
func (f *failures) due(err error) bool {
	const again = 60 // attempts after which a failure that goes on is logged once more
	kind, first := failedOtherwise, 0
	switch {
	case err == nil:
		*f = failures{}
		return false
	case refused(err):
		kind = failedRefused
	case eventlog.IsAway(err):
		kind, first = failedAway, 1 // mostly it is there at the next attempt
	}
	if kind != f.kind {
		*f = failures{kind: kind}
	}
	due := f.count%again == first
	f.count++
	return due
}
