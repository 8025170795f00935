package e2e_test

import (
	"bytes"
	"regexp"
	"testing"

	"novelgate/internal/apikey"
)

// planted marks everything that a person wrote or is: the tests put it into every comment, user name and external uuid.
const planted = "PLANTED-WORDS-OF-A-PERSON"

// secret matches what must appear nowhere but in its own place.
var secret = regexp.MustCompile(planted + `|` + apikey.Pattern + `|(?i:bearer)\s+ng[a-z]_|PLANTED-DATABASE-PASSWORD`)

// wantNoSecret fails the test when a log, a metric or an error gives something away. where names it.
func wantNoSecret(t testing.TB, where string, text []byte) {
	t.Helper()
	if found := secret.FindIndex(text); found != nil {
		line := text[bytes.LastIndexByte(text[:found[0]], '\n')+1:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		t.Errorf("%s gives away %q in\n%.600s", where, text[found[0]:found[1]], line)
	}
}

func TestSecretsAreRecognised(t *testing.T) {
	t.Parallel()
	key, err := apikey.New(apikey.Partner)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"key=" + key.Reveal(), "Authorization: Bearer ngp_short", "content: " + planted} {
		if !secret.MatchString(text) {
			t.Errorf("%q passes", text)
		}
	}
	if secret.MatchString("Send the API key as Authorization: Bearer <API key>. " + key.String()) {
		t.Error("a redacted key does not pass")
	}
}
