package principal

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// Roles of a User.
const (
	Staff   = "staff"
	Auditor = "auditor"
)

// ErrRole refuses a role other than these.
var ErrRole = fmt.Errorf("a role is %q or %q", Staff, Auditor)

// User is the state of a staff user for decisions. A staff user is a member of staff or an auditor. The zero User has
// no keys.
type User struct{ Keys Keys }

// FoldUser returns the staff user after the events of their stream, oldest first.
func FoldUser(history []events.Recorded) User {
	u := User{Keys{}}
	for _, recorded := range history {
		switch e := recorded.Event.(type) {
		case events.PersonKeyIssued:
			u.Keys[e.KeyID] = Key{ExpiresAt: e.ExpiresAt}
		case events.PersonKeyRevoked:
			u.Keys[e.KeyID] = Key{Revoked: true}
		default: // events of other streams
		}
	}
	return u
}

// IssueKey adds an API key.
func (u User) IssueKey(key events.PersonKeyIssued) ([]events.Event, error) {
	if key.Role != Staff && key.Role != Auditor {
		return nil, ErrRole
	}
	var err error
	if key.Name, err = cleanName(key.Name); err != nil {
		return nil, err
	}
	if err := checkExpiry(key.IssuedAt, key.ExpiresAt); err != nil {
		return nil, err
	}
	return []events.Event{key}, nil
}

// RevokeKey revokes an API key.
func (u User) RevokeKey(keyID uuid.UUID, reason string, at time.Time) ([]events.Event, error) {
	if _, err := u.Keys.active(keyID); err != nil {
		return nil, err
	}
	return []events.Event{events.PersonKeyRevoked{KeyID: keyID, Reason: reason, RevokedAt: at}}, nil
}
