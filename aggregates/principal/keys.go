// Package principal decides on the owners of API keys: integrations, with their names, capabilities and limits, and
// staff users.
package principal

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

// maxName is the longest name of a principal, in characters.
const maxName = 100

// Refusals that integrations and staff users share.
var (
	ErrKeyNotFound  = errors.New("no such key")
	ErrKeyRevoked   = errors.New("the key is revoked already")
	ErrExpiryPassed = errors.New("the expiry lies in the past")
	ErrNameInvalid  = fmt.Errorf("the name must have 1 to %d printable characters", maxName)
)

// Keys are the API keys of a principal.
type Keys map[uuid.UUID]Key

// Key is the state of an API key.
type Key struct {
	Revoked   bool
	ExpiresAt *time.Time // nil: never
}

// active returns a key that is not revoked. It fails with ErrKeyNotFound or ErrKeyRevoked.
func (k Keys) active(id uuid.UUID) (Key, error) {
	key, ok := k[id]
	switch {
	case !ok:
		return key, ErrKeyNotFound
	case key.Revoked:
		return key, ErrKeyRevoked
	default:
		return key, nil
	}
}

// checkExpiry returns ErrExpiryPassed if a new key would expire at or before its issue.
func checkExpiry(issued time.Time, expires *time.Time) error {
	if expires != nil && !expires.After(issued) {
		return ErrExpiryPassed
	}
	return nil
}

// cleanName trims a name. It refuses an empty name, a long one, and one with unprintable characters.
func cleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if n := utf8.RuneCountInString(name); n < 1 || n > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unprintable) {
		return "", ErrNameInvalid
	}
	return name, nil
}

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
