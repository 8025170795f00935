// Package apikey makes and checks API keys.
//
// A key consists of a kind, "_", 30 random characters and 6 characters of checksum:
//
//	ngp_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ
//
// The last 36 characters are base62 (0-9, A-Z, a-z). The checksum is the CRC-32 (IEEE) of everything before it, most
// significant digit first. So a mistyped or truncated key is refused without a database query, and secret scanners
// report no false positives.
package apikey

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
)

// Kind is the kind of a key's owner.
type Kind string

// The kinds of keys.
const (
	Partner Kind = "ngp"
	Staff   Kind = "ngs"
	Auditor Kind = "nga"
	Sandbox Kind = "ngt" // of an integration in a sandbox
)

// Pattern is a regular expression for secret scanners. Check matches with Parse.
const Pattern = `\bng[psat]_[0-9A-Za-z]{36}\b`

var keyPattern = regexp.MustCompile(Pattern)

// Redact shortens every match of Pattern in text to its first 8 characters and an ellipsis. It ignores the checksum,
// because a mistyped key reveals most of the right one.
func Redact(text string) string {
	return keyPattern.ReplaceAllStringFunc(text, func(key string) string { return key[:prefixLen] + "…" })
}

// ErrMalformed is returned for a text that is not a key: wrong kind, length, alphabet or checksum.
var ErrMalformed = errors.New("malformed API key")

const (
	alphabet    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	kindLen     = 3
	headLen     = kindLen + 1 // kind and "_"
	prefixLen   = 8
	randomLen   = 30
	checksumLen = 6 // 62^6 > 2^32
	keyLen      = headLen + randomLen + checksumLen
)

// New makes a random key. It fails for an unknown kind.
func New(k Kind) (Secret, error) {
	if !k.valid() {
		return Secret{}, fmt.Errorf("make key: unknown kind %q", string(k))
	}
	key := make([]byte, 0, keyLen)
	key = append(key, k...)
	key = append(key, '_')
	key = appendRandom(key, randomLen)
	key = appendChecksum(key, crc32.ChecksumIEEE(key))
	return newSecret(string(key)), nil
}

// Parse checks the form of a key. The error is ErrMalformed, without any part of s.
func Parse(s string) (Secret, error) {
	if len(s) != keyLen || !Kind(s[:kindLen]).valid() || s[kindLen] != '_' {
		return Secret{}, ErrMalformed
	}
	for i := headLen; i < keyLen; i++ {
		if !isBase62(s[i]) {
			return Secret{}, ErrMalformed
		}
	}
	const body = keyLen - checksumLen
	var checksum [checksumLen]byte
	if string(appendChecksum(checksum[:0], crc32.ChecksumIEEE([]byte(s[:body])))) != s[body:] {
		return Secret{}, ErrMalformed
	}
	return newSecret(s), nil
}

func (k Kind) valid() bool { return k == Partner || k == Staff || k == Auditor || k == Sandbox }

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

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
