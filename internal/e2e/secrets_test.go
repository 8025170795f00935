package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/docs"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

// documentedPattern finds keys. docs/security.md and docs/openapi.yaml give it to secret scanners.
const documentedPattern = `\bng[psat]_[0-9A-Za-z]{36}\b`

// Words that are planted where people write. What is accepted may be stored where docs/architecture.md says, what is
// refused nowhere.
const (
	acceptedWords = "PLANTED-ACCEPTED-"
	refusedWords  = "PLANTED-REFUSED-"
)

// TestSecretsStaySecret plants keys, Authorization headers and comments of every fate, and then looks for them wherever
// they must not be. Every key is shown once, and a secret scanner finds it there.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	database := testdb.New(t)
	proxy := NewProxy(t, database)
	s := Start(t, proxy.URL, "--log-level", "debug", "--request-timeout", "10s")
	s.DatabaseURL, s.heard = database, &testdb.Log{} // for the command line, which the proxy does not concern
	partner, ada := s.makeKeys(t)
	guesses := []string{tamper(partner.APIKey), tamper(ada.APIKey)}
	for _, kind := range []auth.Kind{auth.PartnerKey, auth.StaffKey, auth.AuditorKey} {
		guesses = append(guesses, newKey(t, kind))
	}
	s.sendWrongHeaders(t, partner, ada, guesses)
	s.CLI(t, "key", "revoke", guesses[2]) // the key instead of its id
	s.CLI(t, "key", "list", guesses[3])
	s.sendComments(t, partner)

	// A database that is away: only a key with a wrong checksum is refused, because nobody has to be asked.
	proxy.Cut()
	away := partner.Request(PostsPath, "away", commentOf("Secrets", acceptedWords).JSON(t))
	s.Send(t, away).WantProblem(t, 503, "unavailable")
	unasked := []string{newKey(t, auth.PartnerKey), newKey(t, auth.StaffKey)} // answers about others are remembered
	guesses = append(guesses, unasked...)
	for path, keys := range map[string][]string{
		"/api/integrations/me": {guesses[0], unasked[0]}, "/api/admin/novels": {guesses[1], unasked[1]},
	} {
		s.Send(t, Request{Path: path, Bearer: keys[0]}).WantProblem(t, 401, "unauthorized")
		s.Send(t, Request{Path: path, Bearer: keys[1]}).WantProblem(t, 503, "unavailable")
	}
	proxy.Mend(t)
	testdb.Eventually(t, "the service works again", func() bool { return s.Send(t, away).Status < 300 })
	metrics := s.metrics(t)
	s.kill()

	keys := regexp.MustCompile(documentedPattern).FindAllString(s.heard.String(), -1)
	var hashes []string
	for _, key := range keys {
		hashes = append(hashes, fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
	}
	slices.Sort(hashes)
	// Of each key that was shown there is the SHA-256, and of no guess.
	stored := value[[]string](t, database, `SELECT array_agg(hash ORDER BY hash COLLATE "C") FROM (
		SELECT encode(key_hash, 'hex') AS hash
		FROM (SELECT key_hash FROM api_keys UNION ALL SELECT key_hash FROM person_keys) AS keys) AS hashes`)
	if diff := cmp.Diff(hashes, stored); diff != "" {
		t.Errorf("stored hashes (-shown +tables)\n%s", diff)
	}
	log, words := s.stdout.String()+s.stderr.String(), []string{acceptedWords, refusedWords}
	if !strings.Contains(log, "level=DEBUG") {
		t.Error("the log has nothing at level debug")
	}
	var secrets []string // without the prefix by which a key may be recognised
	for _, key := range append(keys, guesses...) {
		secrets = append(secrets, key[8:])
	}
	for where, text := range map[string]string{"the log": log, "/metrics": metrics, "an answer": s.heard.String()} {
		hidden := words
		if where != "an answer" {
			hidden = append(secrets, words...)
		}
		for _, word := range hidden {
			if at := strings.Index(text, word); at >= 0 || text == "" {
				t.Errorf("%s gives away %s in\n%s", where, word, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
	if held := testdb.FindWords(t, database, append(secrets, refusedWords)...); len(held) > 0 {
		t.Errorf("a key or refused words are in %v", held)
	}
	// People's words may be in `personal` of the log, which can be erased, and in the read models of comments and authors.
	holding := testdb.FindWords(t, database, acceptedWords)
	for _, place := range holding {
		if place != "public.events.personal" && !strings.Contains(place, "public.posts.") &&
			!strings.Contains(place, "public.authors.") {
			t.Errorf("%s holds what a comment says", place)
		}
	}
	if !slices.Contains(holding, "public.events.personal") {
		t.Errorf("the search does not find the comments in public.events.personal, only in %v", holding)
	}
}

// makeKeys makes keys in every way there is, and looks at everything that shows keys without showing them.
func (s *Service) makeKeys(t *testing.T) (*Partner, *Person) {
	t.Helper()
	if !strings.Contains(string(docs.OpenAPI), documentedPattern) {
		t.Errorf("docs/openapi.yaml does not give the pattern %s", documentedPattern)
	}
	ada, partner := s.NewStaff(t), s.NewPartner(t, Fields{"name": "Fan Site"})
	const integrations = "/api/admin/integrations"
	for path, body := range map[string]Fields{
		integrations: {"name": "Other Site"},
		integrations + "/" + partner.IntegrationID + "/keys": {"expiresInSeconds": 60},
		"/api/admin/keys/" + partner.KeyID + "/rotate":       {"overlapSeconds": 3600},
	} {
		ada.Post(t, path, "c", body).WantReplayed(t, false, false)
		ada.Post(t, path, "c", body).WantReplayed(t, true, false)
	}
	for _, path := range []string{"", "/" + partner.IntegrationID, "/" + partner.IntegrationID + "/keys"} {
		ada.Get(t, integrations+path).WantJSON(t, 200, &struct{}{})
	}
	for _, command := range []string{
		"auditor create Bob", "integration create Third", "integration create Fourth --json", "key issue Third --json",
		"key issue Third --expires-in 1h", "key rotate " + partner.KeyID + " --overlap 1h", "integration list",
		"integration show Third --json", "key list", "key list Third --json", "staff list", "auditor list --json",
	} {
		s.MustCLI(t, strings.Fields(command)...)
	}
	return partner, ada
}

// sendWrongHeaders sends keys in wrong places, and headers that hold none.
func (s *Service) sendWrongHeaders(t *testing.T, partner *Partner, ada *Person, guesses []string) {
	t.Helper()
	headers := []string{
		"Basic " + refusedWords + partner.APIKey, "Bearer " + partner.APIKey + " " + refusedWords, refusedWords,
		"Bearer " + refusedWords, partner.APIKey,
	}
	for _, guess := range guesses {
		headers = append(headers, "Bearer "+guess)
	}
	for _, authorization := range headers {
		for _, path := range []string{PostsPath, "/api/admin/novels", "/nowhere"} {
			r := partner.Request(path, Key(), Comment("Any").JSON(t))
			r.Bearer, r.Header = "", http.Header{"Authorization": {authorization}}
			if response := s.Send(t, r); response.Status != http.StatusUnauthorized && response.Status != http.StatusNotFound {
				t.Errorf("%s: status %d, want 401 or 404", path, response.Status)
			}
		}
	}
	for _, r := range []Request{
		{Path: "/api/integrations/me?access_token=" + partner.APIKey},
		{Path: "/api/integrations/me?access_token=" + ada.APIKey, Bearer: ada.APIKey},
		{Method: http.MethodDelete, Path: "/api/admin/keys/" + partner.APIKey, Bearer: ada.APIKey}, // instead of its id
		{Path: "/api/integrations/deliveries/" + partner.APIKey + "?operation=posts", Bearer: partner.APIKey},
		{Path: "/" + partner.APIKey},
	} {
		if response := s.Send(t, r); response.Status < http.StatusBadRequest {
			t.Errorf("%s: status %d, want a refusal", r.Method, response.Status)
		}
	}
}

// commentOf is a comment whose every part that a person wrote has the words.
func commentOf(title, words string) Fields {
	return Fields{
		"uuid": words + "uuid", "username": words + "name", "novel": title,
		"content": words + "content. It has several words.",
	}
}

// sendComments sends comments that are accepted and comments that are refused for every reason.
func (s *Service) sendComments(t *testing.T, partner *Partner) {
	t.Helper()
	const title, rejected = "Secrets", "Rejected Secrets"
	partner.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	s.MustCLI(t, "novel", "reject", rejected, "--reason", "test")
	posts := s.NewPartner(t, Fields{"capabilities": []string{"posts"}})
	limited := s.NewPartner(t, Fields{"capabilities": []string{"posts"}, "postsPerMinute": 1})
	none := s.NewPartnerWith(t, nil)
	accepted := commentOf(title, acceptedWords)
	for _, p := range []*Partner{partner, limited} {
		p.Import(t, "accepted", accepted).WantPost(t, 201)
	}
	refused := commentOf(title, refusedWords)
	partner.Import(t, "accepted", refused).WantReplayed(t, true, true)

	whole := refused.JSON(t)
	for _, c := range []struct {
		partner *Partner
		body    []byte
		change  func(*Request)
		status  int
	}{
		{partner, refused.With(Fields{"content": "<b>" + refusedWords + "</b>"}).JSON(t), nil, 400},
		{partner, refused.With(Fields{"content": strings.Repeat(refusedWords, 2500)}).JSON(t), nil, 413},
		{partner, refused.With(Fields{"username": strings.Repeat(refusedWords, 4)}).JSON(t), nil, 400},
		{partner, whole[:len(whole)-2], nil, 400},
		{partner, bytes.ReplaceAll(whole, []byte("several"), []byte("\xff")), nil, 400},
		{partner, bytes.Replace(whole, []byte("{"), []byte(`{"content":"`+refusedWords+`",`), 1), nil, 400},
		{partner, refused.With(Fields{"content": []string{refusedWords}}).JSON(t), nil, 400},
		{partner, []byte(`"` + refusedWords + `"`), nil, 400},
		{posts, commentOf("Unknown Secrets", refusedWords).JSON(t), nil, 404},
		{partner, commentOf(rejected, refusedWords).JSON(t), nil, 404},
		{limited, whole, nil, 429},
		{none, whole, nil, 403},
		{partner, whole, func(r *Request) { r.Key = "" }, 400},
		{partner, whole, func(r *Request) { r.ContentType = "text/plain" }, 415},
		{partner, whole, func(r *Request) { r.Bearer = "" }, 401},
		{partner, whole, func(r *Request) { r.Path += "-x" }, 404},
		{partner, whole, func(r *Request) { r.Method = http.MethodPut }, 405},
	} {
		r := c.partner.Request(PostsPath, Key(), c.body)
		if c.change != nil {
			c.change(&r)
		}
		if response := s.Send(t, r); response.Status != c.status {
			t.Errorf("%.200s: status %d, want %d\n%s", r.Body, response.Status, c.status, response.Body)
		}
	}
}

// planted marks everything that a person wrote or is: the tests put it into every comment, user name and external uuid.
const planted = "PLANTED-WORDS-OF-A-PERSON"

// secret matches what must appear nowhere but in its own place.
var secret = regexp.MustCompile(planted + `|` + auth.KeyPattern + `|(?i:bearer)\s+ng[a-z]_|PLANTED-DATABASE-PASSWORD`)

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
	key := auth.NewKey(auth.PartnerKey)
	for _, text := range []string{"key=" + key.Reveal(), "Authorization: Bearer ngp_short", "content: " + planted} {
		if !secret.MatchString(text) {
			t.Errorf("%q passes", text)
		}
	}
	if secret.MatchString("Send the API key as Authorization: Bearer <API key>. " + key.String()) {
		t.Error("a redacted key does not pass")
	}
}
