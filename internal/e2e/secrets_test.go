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
	headerWords   = "PLANTED-HEADER-"
)

// TestSecretsStaySecret plants keys, Authorization headers and comments of every fate, and then looks for them wherever
// they must not be.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	database := testdb.New(t)
	proxy := NewProxy(t, database)
	s := Start(t, proxy.URL, "--log-level", "debug", "--request-timeout", "10s")
	s.DatabaseURL = database // for the command line, which the proxy does not concern
	spy := &spy{t: t, service: s}

	partner, ada := spy.takeKeys()
	spy.wrongHeaders(partner, ada)
	spy.comments(partner)
	spy.databaseAway(proxy, partner)
	_, metrics := Get(t, s.OpsURL+"/metrics")
	s.kill()
	log := s.stdout.String() + s.stderr.String()

	if !strings.Contains(log, "level=DEBUG") {
		t.Error("the log has nothing at level debug")
	}
	for where, text := range map[string]string{
		"the log": log, "/metrics": metrics, "an answer": spy.answers.String(),
		"the command line": spy.printed.String(),
	} {
		if text == "" {
			t.Errorf("%s is empty", where)
		}
		for _, planted := range append(spy.secrets(), acceptedWords, refusedWords, headerWords) {
			if at := strings.Index(text, planted); at >= 0 {
				t.Errorf("%s gives away %s in\n%s", where, planted, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
	wantTablesClean(t, database, spy)
}

// spy sends requests and keeps the answers, and what the command line prints, but for the one time that a key is shown.
type spy struct {
	t       *testing.T
	service *Service
	keys    []string // that open, or have opened, something
	guesses []string // that never did

	answers, printed Capture
}

// secrets are the keys without the prefix by which they may be recognised.
func (s *spy) secrets() []string {
	var secrets []string
	for _, key := range append(append([]string{}, s.keys...), s.guesses...) {
		secrets = append(secrets, key[8:])
	}
	return secrets
}

func (s *spy) send(r Request) Response {
	s.t.Helper()
	response := s.service.Send(s.t, r)
	_, _ = fmt.Fprintf(&s.answers, "%v\n%s\n", response.Header, response.Body)
	return response
}

// answered is send, repeated as the documents say while a busy machine lets the time run out.
func (s *spy) answered(r Request) Response {
	s.t.Helper()
	response := s.send(r)
	for n := 0; n < 100 && response.Status == http.StatusServiceUnavailable; n++ {
		response = s.send(r)
	}
	return response
}

func (s *spy) run(args ...string) Output {
	s.t.Helper()
	out := s.service.CLI(s.t, args...)
	_, _ = fmt.Fprintf(&s.printed, "%s\n%s\n", out.Stdout, out.Stderr)
	return out
}

// shown runs a command that shows a key this once, and wants a secret scanner to find it there, whole and alone.
func (s *spy) shown(args ...string) string {
	s.t.Helper()
	out := s.service.CLI(s.t, args...)
	found := regexp.MustCompile(documentedPattern).FindAllString(out.Stdout, -1)
	if out.Code != 0 || len(found) != 1 || strings.Contains(out.Stderr, found[0]) {
		s.t.Fatalf("novelgate %v ended with %d; a scanner finds %d keys, want 1\n%s", args, out.Code, len(found), out.Stderr)
	}
	if _, err := auth.ParseKey(found[0]); err != nil {
		s.t.Errorf("novelgate %v prints a key whose checksum is wrong", args)
	}
	s.keys = append(s.keys, found[0])
	return found[0]
}

// takeKeys makes keys in every way there is, uses most of them, and looks at everything that shows keys without showing
// them.
func (s *spy) takeKeys() (*Partner, *Person) {
	t := s.t
	t.Helper()
	if !strings.Contains(string(docs.OpenAPI), documentedPattern) {
		t.Errorf("docs/openapi.yaml does not give the pattern %s", documentedPattern)
	}
	ada := &Person{APIKey: s.shown("staff", "create", "Ada"), Service: s.service}
	auditor := s.shown("auditor", "create", "Bob", "--json")
	partner := &Partner{Service: s.service}
	created := ada.Post(t, "/api/admin/integrations", "c",
		Fields{"name": "Fan Site", "capabilities": []string{"novels", "posts"}, "postsPerMinute": 100000})
	created.WantJSON(t, 201, &partner.NewIntegration)
	s.keys = append(s.keys, partner.APIKey)
	s.shown("integration", "create", "Other Site", "--capability", "posts")
	s.shown("integration", "create", "Third Site", "--json")
	more := s.shown("key", "issue", "Fan Site", "--json")
	s.shown("key", "issue", "Fan Site", "--expires-in", "1h")
	s.shown("key", "rotate", partner.KeyID, "--overlap", "1h")
	for path, body := range map[string]Fields{
		"/api/admin/integrations/" + partner.IntegrationID + "/keys": {"expiresInSeconds": 60},
		"/api/admin/keys/" + partner.KeyID + "/rotate":               {"overlapSeconds": 3600},
	} {
		var issued IssuedKey
		ada.Post(t, path, "c", body).WantJSON(t, 201, &issued)
		s.keys = append(s.keys, issued.APIKey)
		s.send(Request{
			Method: http.MethodPost, Path: path, Bearer: ada.APIKey, Key: "c", ContentType: "application/json",
			Body: body.JSON(t),
		}).WantReplayed(t, true, false)
	}
	s.send(Request{Path: "/api/integrations/me", Bearer: more}).WantJSON(t, 200,
		&struct{}{})
	s.send(Request{Path: "/api/admin/integrations", Bearer: auditor}).WantProblem(t, 403,
		"forbidden")
	for _, path := range []string{"", "/" + partner.IntegrationID, "/" + partner.IntegrationID + "/keys"} {
		s.send(Request{Path: "/api/admin/integrations" + path, Bearer: ada.APIKey}).WantJSON(
			t, 200, &struct{}{})
	}
	for _, args := range [][]string{
		{"integration", "list"},
		{"integration", "show", "Fan Site", "--json"},
		{"key", "list"},
		{"key", "list", "Fan Site", "--json"},
		{"staff", "list"},
		{"auditor", "list", "--json"},
		{"key", "revoke", s.guess(auth.PartnerKey)}, // the key instead of its id
		{"key", "list", more},
		{"serve", "--listen", "nowhere:-1"},
	} {
		s.run(args...)
	}
	return partner, ada
}

// partner registers one on the command line.
func (s *spy) partner(flags ...string) *Partner {
	s.t.Helper()
	made := s.service.CreateIntegration(s.t, Unique("partner"), flags...)
	s.keys = append(s.keys, made.APIKey)
	return &Partner{NewIntegration: made, Service: s.service}
}

// guess makes a key that nobody was given.
func (s *spy) guess(kind auth.Kind) string {
	guess := newKey(s.t, kind)
	s.guesses = append(s.guesses, guess)
	return guess
}

// wrongHeaders sends keys in wrong places, and headers that hold none.
func (s *spy) wrongHeaders(partner *Partner, ada *Person) {
	s.t.Helper()
	wrong := tamper(partner.APIKey)
	s.guesses = append(s.guesses, wrong)
	for _, authorization := range []string{
		"Bearer " + wrong, "Bearer " + s.guess(auth.PartnerKey), "Bearer " + s.guess(auth.StaffKey),
		"Bearer " + s.guess(auth.AuditorKey),
		"Basic " + headerWords + partner.APIKey, "Bearer " + partner.APIKey + " " + headerWords, headerWords,
		"Bearer " + headerWords, partner.APIKey,
	} {
		for _, path := range []string{NovelsPath, PostsPath, "/api/admin/novels", "/nowhere"} {
			r := partner.Request(path, Key(), Comment("Any").JSON(s.t))
			r.Bearer, r.Header = "", http.Header{"Authorization": {authorization}}
			if response := s.send(r); response.Status != http.StatusUnauthorized && response.Status != http.StatusNotFound {
				s.t.Errorf("%s: status %d, want 401 or 404", path, response.Status)
			}
		}
	}
	for _, r := range []Request{
		{Method: http.MethodGet, Path: "/api/integrations/me?access_token=" + partner.APIKey},
		{Method: http.MethodGet, Path: "/api/integrations/me?access_token=" + ada.APIKey, Bearer: ada.APIKey},
		// the key instead of its id
		{Method: http.MethodDelete, Path: "/api/admin/keys/" + partner.APIKey, Bearer: ada.APIKey},
		{
			Method: http.MethodGet, Path: "/api/integrations/deliveries/" + partner.APIKey + "?operation=posts",
			Bearer: partner.APIKey,
		},
		{Method: http.MethodGet, Path: "/" + partner.APIKey},
	} {
		if response := s.send(r); response.Status < http.StatusBadRequest {
			s.t.Errorf("%s: status %d, want a refusal", r.Method, response.Status)
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

// comments sends comments that are accepted and comments that are refused for every reason.
func (s *spy) comments(partner *Partner) {
	t := s.t
	t.Helper()
	const title = "Secrets"
	rejected := "Rejected Secrets"
	partner.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	partner.Upsert(t, Key(), Fields{"novel": rejected}).WantNovel(t, 201)
	s.service.Moderate(t, "reject", rejected)
	posts := s.partner("--capability", "posts", "--posts-per-minute", "1000")
	limited := s.partner("--capability", "posts", "--posts-per-minute", "1")
	none := s.partner()

	for _, p := range []*Partner{partner, limited} {
		body := commentOf(title, acceptedWords).JSON(t)
		s.answered(p.Request(PostsPath, "accepted", body)).WantPost(t, 201)
	}
	replay := commentOf(title, refusedWords)
	s.answered(partner.Request(PostsPath, "accepted", replay.JSON(t))).WantReplayed(t, true, true)

	refused := commentOf(title, refusedWords)
	whole := refused.JSON(t)
	cut := func(body []byte) []byte { return body[:len(body)-2] }
	for name, c := range map[string]struct {
		partner *Partner
		body    []byte
		change  func(*Request)
		status  int
	}{
		"HTML": {
			partner, refused.With(Fields{"content": "<b>" + refusedWords + "</b>"}).JSON(t), nil, 400,
		},
		"too large": {
			partner, refused.With(Fields{"content": strings.Repeat(refusedWords, 2500)}).JSON(t), nil, 413,
		},
		"too long": {
			partner, refused.With(Fields{
				"content": strings.Repeat(refusedWords, 1300), "username": strings.Repeat(refusedWords, 4),
			}).JSON(t), nil, 400,
		},
		"invalid JSON": {partner, cut(whole), nil, 400},
		"no UTF-8":     {partner, bytes.ReplaceAll(whole, []byte("several"), []byte("\xff")), nil, 400},
		"twice a member": {
			partner, bytes.Replace(whole, []byte("{"), []byte(`{"content":"`+refusedWords+`",`), 1), nil, 400,
		},
		"wrong type":       {partner, refused.With(Fields{"content": []string{refusedWords}}).JSON(t), nil, 400},
		"no object":        {partner, []byte(`"` + refusedWords + `"`), nil, 400},
		"unknown novel":    {posts, commentOf("Unknown Secrets", refusedWords).JSON(t), nil, 404},
		"rejected novel":   {partner, commentOf(rejected, refusedWords).JSON(t), nil, 404},
		"rate limited":     {limited, whole, nil, 429},
		"no capability":    {none, whole, nil, 403},
		"no key":           {partner, whole, func(r *Request) { r.Key = "" }, 400},
		"wrong media type": {partner, whole, func(r *Request) { r.ContentType = "text/plain" }, 415},
		"unauthorized":     {partner, whole, func(r *Request) { r.Bearer = "" }, 401},
		"wrong path":       {partner, whole, func(r *Request) { r.Path += "/" + "x" }, 404},
		"wrong method":     {partner, whole, func(r *Request) { r.Method = http.MethodPut }, 405},
	} {
		r := c.partner.Request(PostsPath, Key(), c.body)
		if c.change != nil {
			c.change(&r)
		}
		if response := s.answered(r); response.Status != c.status {
			t.Errorf("%s: status %d, want %d\n%s", name, response.Status, c.status, response.Body)
		}
	}
}

// databaseAway takes the database away. Then a comment is not accepted, and a key with a wrong checksum, but no other,
// is refused all the same: nobody had to be asked.
func (s *spy) databaseAway(proxy *Proxy, partner *Partner) {
	t := s.t
	t.Helper()
	proxy.Cut()
	away := partner.Request(PostsPath, "away", commentOf("Secrets", acceptedWords).JSON(t))
	s.send(away).WantProblem(t, 503, "unavailable")
	ask := Request{Path: "/api/integrations/me"}
	for _, kind := range []auth.Kind{auth.PartnerKey, auth.StaffKey} {
		if kind == auth.StaffKey {
			ask.Path = "/api/admin/novels"
		}
		key := s.guess(kind)
		ask.Bearer = key
		s.send(ask).WantProblem(t, 503, "unavailable")
		wrong := tamper(key)
		s.guesses = append(s.guesses, wrong)
		ask.Bearer = wrong
		s.send(ask).WantProblem(t, 401, "unauthorized")
	}
	proxy.Mend(t)
	request := partner.Request(PostsPath, "back", commentOf("Secrets", acceptedWords).JSON(t))
	testdb.Eventually(t, "the service works again", func() bool { return s.send(request).Status < 300 })
}

// mayHoldWords are the places that people's words may be in: `personal` of the log, which can be erased, and the read
// models of comments and their authors.
var mayHoldWords = []string{"public.events.personal.", "public.posts.", "public.authors."}

// wantTablesClean looks wherever the database may keep something: keys are nowhere, refused words neither, and accepted
// words only where they belong.
func wantTablesClean(t *testing.T, databaseURL string, s *spy) {
	t.Helper()
	if held := testdb.FindWords(t, databaseURL, append(s.secrets(), refusedWords, headerWords)...); len(held) > 0 {
		t.Errorf("a key or refused words are in %v", held)
	}
	holding := testdb.FindWords(t, databaseURL, acceptedWords)
	for _, name := range holding {
		if !slices.ContainsFunc(mayHoldWords, func(place string) bool { return strings.Contains(name+".", place) }) {
			t.Errorf("%s holds what a comment says", name)
		}
	}
	if !slices.Contains(holding, "public.events.personal") {
		t.Errorf("the search does not find the comments in public.events.personal, only in %v", holding)
	}
	// Of each key that was issued there is the SHA-256, and of no guess.
	var wanted []string
	for _, key := range s.keys {
		wanted = append(wanted, fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
	}
	slices.Sort(wanted)
	stored := value[[]string](t, databaseURL, `SELECT array_agg(hash ORDER BY hash COLLATE "C") FROM (SELECT encode(key_hash, 'hex') AS hash
		FROM (SELECT key_hash FROM api_keys UNION ALL SELECT key_hash FROM person_keys) AS keys) AS hashes`)
	if diff := cmp.Diff(wanted, stored); diff != "" {
		t.Errorf("stored hashes (-keys +tables)\n%s", diff)
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

func newKey(t *testing.T, kind auth.Kind) string {
	t.Helper()
	return auth.NewKey(kind).Reveal()
}

// tamper changes one character in the middle of the key.
func tamper(key string) string {
	i := len(key) / 2
	replacement := "A"
	if key[i] == 'A' {
		replacement = "B"
	}
	return key[:i] + replacement + key[i+1:]
}
