package webhooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// secretPrefix is the prefix of secrets in Standard Webhooks.
const secretPrefix = "whsec_"

// secretBytes is the size of a secret.
const secretBytes = 32

// newSecret returns a new secret and its text form for the partner.
func newSecret() (secret []byte, shown string) {
	secret = make([]byte, secretBytes)
	rand.Read(secret) // never fails
	return secret, secretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// sign returns the header webhook-signature: one signature for each secret.
func sign(id string, at time.Time, body []byte, secrets ...[]byte) string {
	var header []byte
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		if header != nil {
			header = append(header, ' ')
		}
		header = base64.StdEncoding.AppendEncode(append(header, "v1,"...), mac.Sum(nil))
	}
	return string(header)
}
