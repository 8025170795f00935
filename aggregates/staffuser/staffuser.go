// Package staffuser decides on the API keys of staff users: members of staff and auditors.
package staffuser

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"novelgate/events"
)

// Roles.
const (
	Staff   = "staff"
	Auditor = "auditor"
)

// maxName is the longest name of a staff user, in characters.
const maxName = 100

// Refusals.
var (
	ErrKeyNotFound  = errors.New("no such key")
	ErrKeyRevoked   = errors.New("the key is revoked already")
	ErrNameInvalid  = fmt.Errorf("the name must have 1 to %d printable characters, without spaces around them", maxName)
	ErrRole         = fmt.Errorf("a role is %q or %q", Staff, Auditor)
	ErrExpiryPassed = errors.New("the expiry lies in the past")
)

// User is the state for decisions. The zero User has no keys yet.
type User struct {
	Keys map[uuid.UUID]Key
}

// Key is the state of an API key.
type Key struct{ Revoked bool }

// Fold returns the staff user after the events of their stream, oldest first.
func Fold(history []events.Recorded) User {
	u := User{Keys: map[uuid.UUID]Key{}}
	for _, recorded := range history {
		switch e := recorded.Event.(type) {
		case events.PersonKeyIssued:
			u.Keys[e.KeyID] = Key{}
		case events.PersonKeyRevoked:
			u.Keys[e.KeyID] = Key{Revoked: true}
		default: // no event of this stream
		}
	}
	return u
}

// Issue adds an API key.
func (u User) Issue(key events.PersonKeyIssued) ([]events.Event, error) {
	switch {
	case key.Role != Staff && key.Role != Auditor:
		return nil, ErrRole
	case !validName(key.Name):
		return nil, ErrNameInvalid
	case key.ExpiresAt != nil && !key.ExpiresAt.After(key.IssuedAt):
		return nil, ErrExpiryPassed
	default:
		return []events.Event{key}, nil
	}
}

// Revoke revokes an API key.
func (u User) Revoke(keyID uuid.UUID, reason string, at time.Time) ([]events.Event, error) {
	key, ok := u.Keys[keyID]
	switch {
	case !ok:
		return nil, ErrKeyNotFound
	case key.Revoked:
		return nil, ErrKeyRevoked
	default:
		return []events.Event{events.PersonKeyRevoked{KeyID: keyID, Reason: reason, RevokedAt: at}}, nil
	}
}

func validName(name string) bool {
	n := utf8.RuneCountInString(name)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return n >= 1 && n <= maxName && utf8.ValidString(name) && name == strings.TrimSpace(name) &&
		!strings.ContainsFunc(name, unprintable)
}
