package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"regexp"
	"strings"
)

// Kind is the kind of a key's owner, with which the key begins.
//
// A key consists of a kind, "_", 30 random characters and 6 characters of checksum:
//
//	ngp_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ
//
// The last 36 characters are base62 (0-9, A-Z, a-z). The checksum is the CRC-32 (IEEE) of everything before it, most
// significant digit first. So a mistyped or truncated key is refused without a database query, and secret scanners
// report no false positives.
type Kind string

// The kinds of keys.
const (
	PartnerKey Kind = "ngp"
	StaffKey   Kind = "ngs"
	AuditorKey Kind = "nga"
	SandboxKey Kind = "ngt" // of an integration in a sandbox
)

// KeyPattern is a regular expression for secret scanners. Check matches with ParseKey.
const KeyPattern = `\bng[psat]_[0-9A-Za-z]{36}\b`

var keyPattern = regexp.MustCompile(KeyPattern)

// HasKey reports whether a text has a match of KeyPattern.
func HasKey(text string) bool { return keyPattern.MatchString(text) }

// Redact shortens every match of KeyPattern in text to its first 8 characters and an ellipsis. It ignores the checksum,
// because a mistyped key reveals most of the right one.
func Redact(text string) string {
	return keyPattern.ReplaceAllStringFunc(text, func(key string) string { return key[:prefixLen] + "…" })
}

const (
	alphabet    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	kindLen     = 3
	headLen     = kindLen + 1 // kind and "_"
	prefixLen   = 8
	randomLen   = 30
	checksumLen = 6 // 62^6 > 2^32
	keyLen      = headLen + randomLen + checksumLen
)

// NewKey makes a random key.
func NewKey(k Kind) Secret {
	key := make([]byte, 0, keyLen)
	key = append(key, k...)
	key = append(key, '_')
	key = appendRandom(key, randomLen)
	key = appendChecksum(key, crc32.ChecksumIEEE(key))
	return newSecret(string(key))
}

// ParseKey checks the form of a key. The error is ErrMalformed, without any part of s.
func ParseKey(s string) (Secret, error) {
	if len(s) != keyLen || s[kindLen] != '_' || strings.Trim(s[headLen:], alphabet) != "" {
		return Secret{}, ErrMalformed
	}
	switch Kind(s[:kindLen]) {
	case PartnerKey, StaffKey, AuditorKey, SandboxKey:
	default:
		return Secret{}, ErrMalformed
	}
	const body = keyLen - checksumLen
	var checksum [checksumLen]byte
	if string(appendChecksum(checksum[:0], crc32.ChecksumIEEE([]byte(s[:body])))) != s[body:] {
		return Secret{}, ErrMalformed
	}
	return newSecret(s), nil
}

// appendRandom appends n characters of the alphabet, each equally likely, because bytes of 248 (4 × 62) or more are
// discarded.
func appendRandom(b []byte, n int) []byte {
	const limit = 256 / len(alphabet) * len(alphabet)
	var random [64]byte
	for end := len(b) + n; len(b) < end; {
		_, _ = rand.Read(random[:]) // never fails: it aborts the program instead
		for _, c := range random {
			if int(c) < limit && len(b) < end {
				b = append(b, alphabet[int(c)%len(alphabet)])
			}
		}
	}
	return b
}

func appendChecksum(b []byte, sum uint32) []byte {
	var digits [checksumLen]byte
	for i := checksumLen - 1; i >= 0; i-- {
		digits[i] = alphabet[sum%uint32(len(alphabet))]
		sum /= uint32(len(alphabet))
	}
	return append(b, digits[:]...)
}

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

// MarshalText returns String, so that encoders cannot leak the key. It cannot be unmarshalled; use ParseKey.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
