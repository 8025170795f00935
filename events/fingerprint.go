package events

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"
)

// Fingerprint identifies a normalised command without revealing it: SHA-256 over the event's salt and the command, cut
// to 128 bits. Without the salt, after erasure, a guess cannot be checked against it.
func Fingerprint(salt uuid.UUID, canonical []byte) string {
	hash := sha256.New()
	hash.Write(salt[:])
	hash.Write(canonical)
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:16])
}

// Differs reports whether a command with these canonical bytes differs from the one recorded with metadata and salt. It
// returns false after erasure, or when no fingerprint was stored.
func Differs(metadata Metadata, salt uuid.NullUUID, canonical []byte) bool {
	return salt.Valid && metadata.Fingerprint != "" && metadata.Fingerprint != Fingerprint(salt.UUID, canonical)
}
