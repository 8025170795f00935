package ledger

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// ErrKeyFile is returned for a file that is not a file of private keys.
var ErrKeyFile = errors.New("not a file of ledger keys")

const (
	privatePrefix = "PRIVATE+KEY+"
	algEd25519    = 1
)

// key is a private key that signs checkpoints.
type key struct {
	seed []byte // Ed25519
}

// makeKey returns a new key in the form of C2SP signed-note.
func makeKey(origin string) (private, verifierKey string, err error) {
	private, verifierKey, err = note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return "", "", fmt.Errorf("make ledger key: %w", err)
	}
	return private, verifierKey, nil
}

func parseKey(line string) (key, error) {
	if _, err := note.NewSigner(line); err != nil {
		return key{}, ErrKeyFile
	}
	// Split from the left, because the base64 at the end may contain plus signs.
	fields := strings.SplitN(strings.TrimPrefix(line, privatePrefix), "+", 3)
	raw, err := base64.StdEncoding.DecodeString(fields[len(fields)-1])
	if err != nil || len(raw) != 1+ed25519.SeedSize || raw[0] != algEd25519 {
		return key{}, ErrKeyFile
	}
	return key{seed: raw[1:]}, nil
}

// signer returns the signer and the public key for an origin. The line of a key has the origin for which it was made,
// but a key can sign under any origin.
func (k key) signer(origin string) (_ note.Signer, verifierKey string, err error) {
	private := ed25519.NewKeyFromSeed(k.seed)
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok {
		return nil, "", ErrKeyFile
	}
	if verifierKey, err = note.NewEd25519VerifierKey(origin, public); err != nil {
		return nil, "", fmt.Errorf("name key after origin %q: %w", origin, err)
	}
	_, rest, _ := strings.Cut(verifierKey, "+")
	hash, _, _ := strings.Cut(rest, "+")
	text := privatePrefix + origin + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{algEd25519},
		k.seed...))
	signer, err := note.NewSigner(text)
	if err != nil {
		return nil, "", fmt.Errorf("name key after origin %q: %w", origin, err)
	}
	return signer, verifierKey, nil
}
