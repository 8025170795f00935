package events

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"github.com/google/uuid"
)

// Fingerprint identifies a normalised command without revealing it: SHA-256 over the event's salt and the command, cut
// to 128 bits. Without the salt, after erasure, a guess cannot be checked against it. The zero Fingerprint stands for
// none.
type Fingerprint [16]byte

// FingerprintOf returns the fingerprint of a command in its canonical form.
func FingerprintOf(salt uuid.UUID, canonical []byte) Fingerprint {
	hash := sha256.New()
	hash.Write(salt[:])
	hash.Write(canonical)
	return Fingerprint(hash.Sum(nil)[:16])
}

// MarshalText renders a fingerprint in base64url.
func (f Fingerprint) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, f[:]), nil
}

var errFingerprint = errors.New("is not a fingerprint")

// UnmarshalText parses what MarshalText renders.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(string(text))
	if err != nil || len(decoded) != len(f) {
		return errFingerprint
	}
	*f = Fingerprint(decoded)
	return nil
}

// Differs reports whether a command with these canonical bytes differs from the one recorded with a fingerprint and
// salt. It returns false after erasure, or when no fingerprint was stored.
func (f Fingerprint) Differs(salt uuid.NullUUID, canonical []byte) bool {
	return salt.Valid && f != Fingerprint{} && f != FingerprintOf(salt.UUID, canonical)
}
