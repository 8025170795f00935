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

	"novelgate/internal/title"
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

// cleanName trims a name. It refuses an empty or invisible name, a long one, and one with unprintable
// characters.
func cleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if n := utf8.RuneCountInString(name); n < 1 || n > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unprintable) || !title.HasVisible(name) {
		return "", ErrNameInvalid
	}
	return name, nil
}
