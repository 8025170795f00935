package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

// through runs `novelgate` through a service, with a key and without a database.
func through(t testing.TB, service, key string, args ...string) Output {
	t.Helper()
	return withEnv(t, []string{"NOVELGATE_URL=" + service, "NOVELGATE_KEY=" + key}, args...)
}

// withEnv runs `novelgate` with further variables, without a database.
func withEnv(t testing.TB, env []string, args ...string) Output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binaryFor(t, args), args...)
	cmd.Env = append(os.Environ(), "NOVELGATE_DATABASE_URL=postgres://nobody@127.0.0.1:1/nothing")
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return Output{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// staffWorld is what the commands of TestStaffThroughService act on. {NAME} in a command stands for a value.
type staffWorld struct {
	run    func(t testing.TB, args ...string) Output
	values map[string]string
}

func newStaffWorld(t testing.TB, s *Service, name string) staffWorld {
	t.Helper()
	// Of the quiet partner nothing happens, so that its keys and webhooks stay as they are.
	p, quiet := s.NewPartner(t, Fields{"name": "Fans " + name}), s.NewPartner(t, Fields{"name": "Quiet " + name})
	reviewed := s.NewPartner(t, Fields{"name": "Reviewed " + name, "review": true})
	p.Upsert(t, Key(), Fields{"novel": "Novel " + name, "genres": []string{"sea"}}).WantNovel(t, 201)
	p.Upsert(t, Key(), Fields{"novel": "Second " + name}).WantNovel(t, 201)
	reviewed.Upsert(t, Key(), Fields{"novel": "Pending " + name}).WantNovel(t, 201)
	comment := Comment("Novel " + name).With(Fields{
		"uuid": "a/../b %2F", "content": "<3 lines\nof text", "chapterNumber": 1.5,
	})
	posted := p.Import(t, Key(), comment).WantPost(t, 201)
	p.Import(t, Key(), comment.With(Fields{"uuid": "other"})).WantPost(t, 201)
	p.Import(t, "refused", comment.With(Fields{"chapterNumber": "1"}))
	return staffWorld{values: map[string]string{
		"WORLD": name, "BLANK": " ", "POST": posted.PostID, "ID": p.IntegrationID, "KEY": quiet.KeyID,
		"WEBHOOK": quiet.NewWebhook(t, "https://hooks.example/"+name).WebhookID,
	}}
}

func (w staffWorld) args(command string) []string {
	var args []string
	for _, arg := range strings.Split(command, "|") {
		for name, value := range w.values {
			arg = strings.ReplaceAll(arg, "{"+name+"}", value)
		}
		args = append(args, arg)
	}
	return args
}

// masks hide what differs between two worlds.
var masks = []*regexp.Regexp{
	regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`),
	regexp.MustCompile(`\d{4}-\d\d-\d\d[ T][\d:]{8}(\.\d+)?Z`),
	regexp.MustCompile(`ng[a-z]_\w{4,36}`),
	regexp.MustCompile(`staff:[\w :]+`),
	regexp.MustCompile(`direct|remote`),
	regexp.MustCompile(`"lastUsedAt": (null|"…")`), // saved every 30 s
}

func (o Output) masked() Output {
	for _, mask := range masks {
		o.Stdout, o.Stderr = mask.ReplaceAllString(o.Stdout, "…"), mask.ReplaceAllString(o.Stderr, "…")
	}
	return o
}

// TestStaffThroughService: a command of staff prints the same through a service as on the database, also when it is
// refused. Words are separated by |.
func TestStaffThroughService(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t), "--search-comments")
	ada := s.NewStaff(t)
	direct, remote := newStaffWorld(t, s, "direct"), newStaffWorld(t, s, "remote")
	direct.run = s.CLI
	remote.run = func(t testing.TB, args ...string) Output {
		t.Helper()
		return through(t, s.URL, ada.APIKey, args...)
	}
	reads := func(commands ...string) {
		t.Helper()
		for _, command := range commands {
			for _, format := range []string{"", "|--json"} {
				args := remote.args(command + format)
				diff := gocmp.Diff(direct.run(t, args...), remote.run(t, args...))
				if diff != "" { // the service saves every 30 s when keys were used last, perhaps between the two
					diff = gocmp.Diff(direct.run(t, args...), remote.run(t, args...))
				}
				if diff != "" {
					t.Errorf("%v (-direct +through the service)\n%s", args, diff)
				}
			}
		}
	}
	for _, commands := range strings.Split(strings.TrimSpace(`
integration create|Made {WORLD}|--capability|posts|--posts-per-minute|7|--review
integration create|MADE {WORLD}
integration create|host
integration rename|made {WORLD}|Named {WORLD}
integration limit|Named {WORLD}|--lines-per-minute|9|--novels-per-minute|8
integration limit|Named {WORLD}|--lines-per-minute=-1|--posts-per-minute=-1
integration capability|Named {WORLD}|--enable|import|--enable|novels
integration capability|Named {WORLD}|--disable|posts
integration review|Named {WORLD}|off
integration disable|Named {WORLD}
integration enable|Named {WORLD}
integration enable|Nobody
key issue|quiet {WORLD}|--expires-in|90m
key issue|Nobody
key rotate|quiet {WORLD}
key rotate|{KEY}|--overlap|1h
key rotate|{KEY}|--overlap=-1h
key rotate|{POST}
key revoke|{KEY}|--reason|lost
key revoke|{KEY}
key rotate|{KEY}
key revoke|{POST}
key revoke|Quiet {WORLD}
key revoke|nobody
novel publish|New {WORLD}|--author|Ada|--genre|sea|--reading-status|ongoing|--synopsis|short
novel publish|second {WORLD}|--no-genres
novel publish|Second {WORLD}
novel publish|{BLANK}
novel edit|NEW {WORLD}|--language|en|--synopsis=
novel edit|Novel {WORLD}|--language|en
novel edit|Unknown|--language|en
novel approve|Pending {WORLD}|--reason|reads well
novel approve|Pending {WORLD}|--reason|again
novel approve|Unknown|--reason|r
novel approve||--reason|r
novel reject|Pending {WORLD}|--reason|no
novel reject|Barred {WORLD}|--reason|no
novel approve|barred {WORLD}|--reason|yes
novel reject|Novel {WORLD}|--reason|{BLANK}
post hide|{POST}|--reason|advertising
post hide|{POST}|--reason|advertising
post restore|{POST}|--reason|mistake
post hide|{KEY}|--reason|r
post hide|{POST}|{KEY}|{POST}|--reason|several
post restore|{POST}|{KEY}|--reason|{BLANK}
post dismiss-reports|--reason|r
author link|{ID}|a/../b %2F|m-1|--reason|signed in
author link|{ID}|a/../b %2F|
author unlink|Fans {WORLD}|a/../b %2F
author unlink|Fans {WORLD}|a/../b %2F
author block|Fans {WORLD}|..|--reason|spam
author block|Fans {WORLD}|..|--reason|spam
author unblock|Fans {WORLD}|..|--reason|r
author hide-posts|Fans {WORLD}|other|--reason|r
author restore-posts|Fans {WORLD}|other|--reason|r
author restore-posts|Fans {WORLD}|other|--reason|r
author erase|Fans {WORLD}|other|--reason|asked for it
author erase|Fans {WORLD}|nobody|--reason|asked for it
author block|Fans {WORLD}||--reason|r
author block|Nobody|x|--reason|r
webhook disable|{WEBHOOK}|--reason|loops
webhook disable|{WEBHOOK}|--reason|ngp_`+newKey(t, auth.PartnerKey)[4:]+`
webhook enable|{WEBHOOK}
webhook disable|quiet {WORLD}|--reason|loops
webhook enable|https://hooks.example/{WORLD}
webhook enable|nobody
webhook disable|{POST}|--reason|r
`), "\n") {
		noun, rest, _ := strings.Cut(commands, " ")
		command := noun + "|" + rest + "|--json"
		want, got := direct.run(t, direct.args(command)...), remote.run(t, remote.args(command)...)
		if diff := gocmp.Diff(want.masked(), got.masked()); diff != "" {
			t.Errorf("%s (-direct +through the service)\n%s", command, diff)
		}
	}
	testdb.Eventually(t, "a comment is found by its text", func() bool {
		return strings.Contains(remote.run(t, "post", "list", "--text", "LINES of").Stdout, remote.values["POST"])
	})
	reads("integration|list", "integration|show|fans {WORLD}", "integration|show|{ID}", "integration|show|Nobody",
		"integration|show|{POST}",
		"integration|refusals|{ID}", "integration|refusals|Nobody",
		"integration|refusals|{ID}|--key|refused|--operation|posts|--code|invalid_request|--limit|1",
		"key|list", "key|list|Quiet {WORLD}", "key|list|Nobody",
		"novel|show|NOVEL {WORLD}", "novel|show|Unknown", "novel|show|", "novel|list", "novel|list|--limit|1",
		"novel|list|--limit|0|--state|published", "post|show|{POST}", "post|show|{KEY}",
		"post|list|--novel|Novel {WORLD}", "post|list|--integration|Fans {WORLD}|--author|a/../b %2F|--limit|1",
		"post|list|--state|hidden|--chapter|1.5|--from|2020-01-01T00:00:00Z", "post|list|--sort|waiting",
		"post|list|--novel|Unknown", "post|list|--author|x", "post|list|--chapter|x",
		"post|list|--text|lines text", "post|list|--text|!",
		"novel|list|--owner|Fans {WORLD}", "novel|list|--owner|host|--text|NEW", "novel|list|--owner|Nobody",
		"author|show|Fans {WORLD}|a/../b %2F", "author|show|Fans {WORLD}|nobody", "author|list|Fans {WORLD}",
		"author|list|Fans {WORLD}|--limit|1|--blocked|false|--linked|false", "webhook|list",
		"webhook|list|Quiet {WORLD}", "webhook|list|Nobody",
		"events|list|--limit|0", "events|list", "events|list|--limit|2|--after|3|--before|99|--stream-type|novel",
		"events|list|--integration|fans {WORLD}", "events|list|--novel|Novel {WORLD}|--type|post.imported.v1",
		"events|list|--stream|{POST}|--from|2020-01-01T00:00:00Z", "events|list|--novel|Unknown",
		"events|list|--integration|Nobody", "events|list|--actor|fans {WORLD}|--day|2001-02-03", "events|list|--actor|ada",
		"events|list|--after|1000000", "events|list|--type|none",
		"events|show|1", "events|show|1000000")
	log := remote.run(t, "events", "access-log", "--limit", "2")
	if lines := strings.Split(log.Stdout, "\n"); len(lines) != 4 || !strings.Contains(lines[1], "/api/access-log") ||
		!strings.Contains(lines[2], "/api/events") || !strings.HasPrefix(log.Stderr, "Only the first 2;") {
		t.Errorf("the access log through the service: %+v", log)
	}
}

// TestStaffIsRefusedByService: the program says in one line what is wrong, with the key, the address, or a command that
// a staff key does not open. It does not send the key by http to another machine.
func TestStaffIsRefusedByService(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, auditor, partner := s.NewStaff(t), s.NewAuditor(t), s.NewPartner(t)
	hide := []string{"post", "hide", partner.KeyID, "--reason", "r"}
	for _, test := range []struct {
		name, url, key string
		args           []string
		want           string
	}{
		{"wrong key", "", newKey(t, auth.StaffKey), hide, "401 unauthorized: The API key is not valid."},
		{"key of an auditor", "", auditor.APIKey, hide, "403 forbidden: This key belongs to an auditor."},
		{"key of a partner", "", partner.APIKey, hide, "403 forbidden: This key belongs to an integration."},
		{"no key", "", "", hide, "--url or NOVELGATE_URL needs a staff key in NOVELGATE_KEY"},
		{"file", "", "", append(hide, "--key-file", filepath.Join(t.TempDir(), "none")), "--key-file: open "},
		{"http", "http://novels.example", ada.APIKey, hide, "--url: http would show the staff key"},
		{"no URL", "novels.example", ada.APIKey, hide, `--url: "novels.example" is not an http or https address`},
		{"newest", "", ada.APIKey, []string{"events", "list", "--newest"}, "--newest needs the database"},
		{"key of staff", "", ada.APIKey, []string{"staff", "create", "Eve"}, "staff create needs the database"},
		{
			"rewrite", "", ada.APIKey,
			[]string{"author", "erase", partner.Name, "u", "--reason", "r", "--rewrite"},
			"--rewrite needs the database",
		},
	} {
		got := through(t, cmp.Or(test.url, s.URL), test.key, test.args...)
		first, rest, _ := strings.Cut(got.Stderr, "\n")
		if got.Code != 1 || got.Stdout != "" || !strings.HasPrefix(first, "novelgate: "+test.want) || rest != "" {
			t.Errorf("%s: %+v, want %s", test.name, got, test.want)
		}
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(ada.APIKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := through(t, s.URL, "", "integration", "show", partner.Name, "--key-file", file); got.Code != 0 {
		t.Errorf("with the key in a file: %+v", got)
	}
	if got := through(t, s.URL, auditor.APIKey, "events", "show", "0"); got.Code != 0 {
		t.Errorf("an auditor reads an event: %+v", got)
	}
}

// TestStaffRepeatsThroughService: a command whose answer is lost, or that is asked to wait, is repeated with its
// Idempotency-Key and is carried out once. The program says once why it waits. It trusts the certificates of the
// system, or those of SSL_CERT_FILE.
func TestStaffRepeatsThroughService(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, p := s.NewStaff(t), s.NewPartner(t)
	title := Unique("Repeated")
	p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	target := testdb.Must(url.Parse(s.URL))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	var posts atomic.Int32
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodPost && posts.Add(1) == 1 {
			return errors.New("lost")
		}
		return nil
	}
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(server.Close)
	command := []string{"novel", "reject", title, "--reason", "no"}
	distrusted := through(t, server.URL, ada.APIKey, command...)
	if distrusted.Code != 1 || !strings.Contains(distrusted.Stderr, "x509: ") ||
		strings.Count(distrusted.Stderr, "\n") != 1 {
		t.Errorf("with an unknown certificate: %+v", distrusted)
	}
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trusted, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	got := withEnv(t, []string{
		"NOVELGATE_URL=" + server.URL, "NOVELGATE_KEY=" + ada.APIKey, "SSL_CERT_FILE=" + trusted,
	}, command...)
	if got.Code != 0 || !strings.Contains(got.Stdout, "rejected") || posts.Load() != 2 ||
		got.Stderr != "novelgate: waiting for the service: 503 Service Unavailable\n" {
		t.Errorf("after a lost answer: %d requests, %+v", posts.Load(), got)
	}
}
