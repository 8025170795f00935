package ledger

import (
	"time"
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
