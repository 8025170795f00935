package ledger

import (
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
)

// EventsSQL is the statement of Store.Events.
const EventsSQL = eventsSQL

// Keys returns the public keys of a signer.
func (s *Signer) Keys() []string { return s.config.Identity.VerifierKeys }

// LoggedFailures returns the indexes of the outcomes that a signer logs.
func LoggedFailures(outcomes []error) (logged []int) {
	var f failures
	for i, err := range outcomes {
		if f.due(err) {
			logged = append(logged, i)
		}
	}
	return logged
}

// SetPoll changes the longest time between two reads of the log.
func (s *Sealer) SetPoll(poll time.Duration) { s.follow.Poll = poll }

// Facts are the inputs of a signer's decision.
type Facts struct {
	Directory   uuid.UUID
	Signer      uuid.NullUUID
	Noted, Last *tlog.Tree
	Tree        tlog.Tree
	Unsealed    bool
}

// Decide reports whether to sign.
func (f Facts) Decide(extends func(older tlog.Tree) error) (sign bool, err error) {
	all := facts{
		directory: f.Directory, signer: f.Signer, noted: f.Noted, last: f.Last, tree: f.Tree, unsealed: f.Unsealed,
	}
	return all.decide(extends)
}
