package staff

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Refusals of reasons.
var (
	ErrReasonRequired = errors.New("a reason is required")
	ErrReasonInvalid  = errors.New("a reason must be valid UTF-8 without the character NUL")
)

// checkReason refuses with ErrReasonInvalid what must not enter the log: PostgreSQL can look into no JSON that holds
// NUL.
func checkReason(reason string) error {
	if !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
		return ErrReasonInvalid
	}
	return nil
}

// requireReason is checkReason for decisions that must have a reason. It refuses a blank one with ErrReasonRequired.
func requireReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return ErrReasonRequired
	}
	return checkReason(reason)
}
