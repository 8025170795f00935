package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Secret is an API key in memory. However it is printed, formatted, logged or
// marshalled, also as an unexported field of something else, it shows its prefix
// at most; only Reveal gives the key. Two secrets can't be compared with ==:
// compare hashes.
type Secret struct {
	// A function, because fmt and reflection-based dumpers print the fields of
	// values whose methods they can't reach, but can't look into a function.
	reveal func() string
}

func newSecret(key string) Secret { return Secret{reveal: func() string { return key }} }

// Reveal returns the whole key: for the one time that it is shown to its owner, and
// for the Authorization header of a client.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Kind returns who the key is for, "" for the zero Secret.
func (s Secret) Kind() Kind {
	key := s.Reveal()
	if key == "" {
		return ""
	}
	return Kind(key[:kindLen])
}

// Prefix returns the first 8 characters, "ngp_" included: enough to tell keys apart
// in a list, and not secret.
func (s Secret) Prefix() string {
	key := s.Reveal()
	return key[:min(prefixLen, len(key))]
}

// Hash returns the SHA-256 of the whole key, which is what is stored. The key has
// about 178 random bits, so that a slow hash would add nothing.
func (s Secret) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(s.Reveal())) }

// Matches reports whether hash is this key's, in constant time.
func (s Secret) Matches(hash [sha256.Size]byte) bool {
	own := s.Hash()
	return subtle.ConstantTimeCompare(own[:], hash[:]) == 1
}

// String returns the prefix and an ellipsis: "ngp_AbC1…".
func (s Secret) String() string {
	if s.reveal == nil {
		return "(no key)"
	}
	return s.Prefix() + "…"
}

// Format writes String for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// GoString returns String, for callers that look for it without fmt.
func (s Secret) GoString() string { return s.String() }

// LogValue returns String as the value in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns String, so that encoders can't leak the key either. There is
// no way back: a Secret is read with Parse.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
