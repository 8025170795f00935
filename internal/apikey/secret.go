package apikey

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
)

// Secret is an API key in memory. Printing, formatting, logging or marshalling it, also as an unexported field of
// another value, shows at most its prefix. Only Reveal returns the key. Secrets cannot be compared with ==; compare
// their hashes.
type Secret struct {
	// A function, because fmt and reflection-based dumpers print the fields of values whose methods they cannot call, but
	// not the variables of a closure.
	reveal func() string
}

func newSecret(key string) Secret { return Secret{reveal: func() string { return key }} }

// Reveal returns the whole key. Use it to show a new key once to its owner, and for the Authorization header of a
// client.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Kind returns the kind of the key, "" for the zero Secret.
func (s Secret) Kind() Kind {
	key := s.Reveal()
	if key == "" {
		return ""
	}
	return Kind(key[:kindLen])
}

// Prefix returns the first 8 characters, including "ngp_". They distinguish keys in a list and are not secret.
func (s Secret) Prefix() string {
	key := s.Reveal()
	return key[:min(prefixLen, len(key))]
}

// Hash returns the SHA-256 of the whole key, which is stored instead of the key. The key has at least 154 random bits,
// so a slow hash is not necessary.
func (s Secret) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(s.Reveal())) }

// String returns the prefix and an ellipsis: "ngp_AbC1…".
func (s Secret) String() string {
	if s.reveal == nil {
		return "(no key)"
	}
	return s.Prefix() + "…"
}

// Format writes String for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// GoString returns String, for callers that do not use fmt.
func (s Secret) GoString() string { return s.String() }

// LogValue returns String as the value in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns String, so that encoders cannot leak the key. It cannot be unmarshalled; use Parse.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
