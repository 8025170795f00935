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

// checkReason refuses an invalid reason with ErrReasonInvalid. PostgreSQL cannot parse JSON with the character NUL.
func checkReason(reason string) error {
	if !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
		return ErrReasonInvalid
	}
	return nil
}

// requireReason is checkReason for decisions with a required reason. It refuses a blank one with ErrReasonRequired.
func requireReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return ErrReasonRequired
	}
	return checkReason(reason)
}
