package refusals_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/commands"
	"novelgate/commands/bulk"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/refusals"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

var acme, other, disabled = uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}

// fixture is a replica with a recorder, and the routes of partners before a committer that refuses commands.
type fixture struct {
	*refusals.Recorder
	url     string
	pool    *pgxpool.Pool
	handler http.Handler

	mu  sync.Mutex
	now time.Time
}

func newFixture(t *testing.T, databaseURL string) *fixture {
	t.Helper()
	f := &fixture{url: databaseURL, pool: testdb.Pool(t, databaseURL), now: time.Now()}
	f.Recorder = &refusals.Recorder{
		Pool: f.pool, Now: f.clock, Logger: (&testdb.Log{}).Logger(), Metrics: refusals.NewMetrics(),
	}
	kit := &web.Kit{
		Logger: (&testdb.Log{}).Logger(), Now: f.clock, Timeout: time.Minute,
		Problems: []func(error) *problem.Error{commands.Problem}, Refused: f.Add,
	}
	partners := auth.NewPartners(kit, func(_ context.Context, key string) (*auth.Integration, error) {
		id, err := uuid.Parse(key)
		if err != nil {
			return nil, auth.ErrUnknown
		}
		return &auth.Integration{
			IntegrationID: id, Enabled: id != disabled, CanPost: true, CanCreateNovels: id == acme, CanImport: true,
		}, nil
	})
	limits := commands.Limits{Limiter: noLimit{}}
	addresses := web.NewAddresses(&url.URL{Scheme: "https", Host: "novels.example"})
	router := mux.NewRouter().SkipClean(true)
	(&commands.API{
		Partners: partners, Committer: refuser{}, Limits: limits, Outcomes: commands.NewOutcomes(), Addresses: addresses,
	}).Register(router)
	(&bulk.API{
		Kit: kit, Partners: partners, Committer: refuser{}, Outcomes: bulk.NewOutcomes(), Addresses: addresses,
		Draining: func() bool { return false },
	}).Register(router)
	(&refusals.API{Partners: partners, DB: f.pool}).Register(router)
	f.handler = kit.Handler(router, nil)
	return f
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

type noLimit struct{}

func (noLimit) Status(ratelimit.Key, int) ratelimit.Decision { return ratelimit.Decision{} }

// outcomes are the errors of a refuser, by the key of the command.
var outcomes = map[string]error{
	"rejected": novel.ErrRejected, "blocked": author.ErrBlocked, "away": committer.ErrUnavailable,
	"defect": errors.New("a defect"), "limited": &committer.RateLimitedError{}, "misused": committer.ErrKeyMisused,
}

// refuser is a committer that refuses commands by their key.
type refuser struct{}

func (refuser) Execute(_ context.Context, cmd *committer.Command) (committer.Result, error) {
	return committer.Result{}, outcomes[cmd.Key]
}

func (refuser) Submit(_ context.Context, cmd *committer.Command) (committer.Submitted, error) {
	return committer.Submitted{}, outcomes[cmd.Key]
}

// send sends a request of an integration. Pairs of headers replace its own.
func (f *fixture) send(t testing.TB, of, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, "/api/integrations/"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+of)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", "r")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

func (f *fixture) flush(t testing.TB) {
	t.Helper()
	testdb.NoError(t, f.Flush(t.Context()))
}

// list returns the refusals of an integration, oldest first, each as a line.
func (f *fixture) list(t testing.TB, of uuid.UUID) (lines []string) {
	t.Helper()
	for _, r := range testdb.Must(refusals.List(t.Context(), f.pool, refusals.Filter{IntegrationID: of}))(t) {
		text := func(s *string) string {
			if s == nil {
				return "-"
			}
			return *s
		}
		lines = append(lines, strings.Join([]string{
			r.RequestID, r.Operation, text(r.IdempotencyKey), string(r.Code), text(r.Field), r.Detail,
		}, " "))
	}
	slices.Reverse(lines)
	return lines
}

// refuse adds refusals of an integration.
func (f *fixture) refuse(of uuid.UUID, code problem.Code, n int) {
	for range n {
		f.Add(web.Refusal{Integration: of, Operation: "posts", Problem: problem.New(code, "d")})
	}
}

func (f *fixture) count(t testing.TB, of uuid.UUID) int {
	t.Helper()
	return testdb.Value[int](t, f.pool, `SELECT count(*)::int FROM refusals WHERE integration_id = $1`, of)
}

// TestWhatIsRecorded: each refused command has one record, without anything of its body, and without API keys. Personal
// is what the requests have of a person, in each place that a problem may quote.
func TestWhatIsRecorded(t *testing.T) {
	t.Parallel()
	const personal = "Marlow"
	apiKey := auth.NewKey(auth.PartnerKey).Reveal()
	post := `{"uuid":"` + personal + `","username":"` + personal + `","novel":"N","content":"` + personal + `"`
	const invalid, ndjson = "invalid_request ", "application/x-ndjson"
	f := newFixture(t, testdb.New(t))
	for _, c := range []struct {
		name, of, method, path, key, body string // method: POST without one
		header                            []string
		want                              string // without the request id; "": nothing is recorded
	}{
		{name: "required", path: "posts", key: "k", body: `{}`, want: "posts k " + invalid + "uuid is required (3 more)"},
		{
			name: "type", path: "posts", key: "k", body: post + `,"chapterNumber":"` + personal + `"}`,
			want: "posts k " + invalid + "chapterNumber must be a number",
		},
		{
			name: "time", path: "posts", key: "k", body: post + `,"timestamp":"` + personal + ` \" ` + personal + `"}`,
			want: "posts k " + invalid + "timestamp must be ISO 8601 with date, time and time zone, such as " +
				"2024-05-01T10:00:00Z or 2024-05-01T12:00:00.123+02:00",
		},
		{
			name: "HTML", path: "posts", key: "k", body: strings.Replace(post, `"content":"`, `"content":"<b>`, 1) + `}`,
			want: "posts k " + invalid + "content must be plain text, but contains HTML",
		},
		{
			name: "member of another name", path: "posts", key: "k", body: `{"` + personal + `":1,"` + personal + `":1}`,
			want: "posts k " + invalid + "- duplicate member at byte 12",
		},
		{
			name: "case", path: "posts", key: "k", body: `{"UUID":"` + personal + `"}`,
			want: "posts k " + invalid + "UUID unknown member: the name is …, and case matters (3 more)",
		},
		{
			name: "no JSON", path: "posts", key: "k", body: personal,
			want: "posts k " + invalid + "- The request body is not valid JSON: invalid character 'M' " +
				"at start of value at byte 0.",
		},
		{
			name: "URL", path: "novels", key: "k", body: `{"novel":"N","coverUrl":"https://h.example/%` + personal + `"}`,
			want: "novels k " + invalid + "coverUrl has …, which is not percent-encoding: a percent sign in a URL is %25",
		},
		{
			name: "status", path: "novels", key: "k", body: `{"novel":"N","readingStatus":"` + personal + `"}`,
			want: "novels k " + invalid + "readingStatus must be ongoing, completed or hiatus",
		},
		{
			name: "list", path: "novels", key: "k", body: `{"novel":"N","genres":["a",1]}`,
			want: "novels k " + invalid + "genres[1] must be a string",
		},
		{
			name: "edit", method: http.MethodPatch, path: "posts/evt/1", key: "k", body: `{"content":"<b>` + personal + `"}`,
			want: "edits k " + invalid + "content must be plain text, but contains HTML",
		},
		{
			name: "withdrawal", method: http.MethodDelete, path: "posts/evt", key: "blocked", body: "",
			want: "withdrawals blocked author_blocked - " + problem.ErrAuthorBlocked.Detail,
		},
		{
			name: "report", path: "posts/evt/reports", key: "k", body: `{"reason":"` + personal + `","detail":"` + personal + `"}`,
			want: "reports k " + invalid + "reason must be one of spam, abuse, spoiler, illegal, copyright, other",
		},
		{
			name: "no key", path: "posts", key: personal + " " + personal, body: post + `}`,
			want: "posts - invalid_idempotency_key - The Idempotency-Key header must be visible ASCII " +
				"(0x21 to 0x7E), without spaces.",
		},
		{
			name: "API key", path: "posts", key: apiKey, body: `{"content":"` + apiKey + `","timestamp":"` + apiKey + `"}`,
			header: []string{"X-Request-Id", apiKey},
			want:   apiKey[:8] + "… posts " + apiKey[:8] + "… " + invalid + "uuid is required (3 more)",
		},
		{
			name: "media type", path: "posts", key: "k", body: "{}", header: []string{"Content-Type", "text/" + personal},
			want: "posts k unsupported_media_type - The Content-Type must be application/json",
		},
		{
			name: "size", path: "posts", key: "k", body: strings.Repeat(" ", 40_000),
			want: "posts k payload_too_large - The request body is larger than 32768 bytes.",
		},
		{
			name: "capability", of: other.String(), path: "novels", key: "k", body: "{}",
			want: "novels k capability_disabled - This integration lacks the capability to create novels.",
		},
		{
			name: "disabled", of: disabled.String(), path: "posts", key: "k", body: "{}",
			want: "posts k capability_disabled - This integration is disabled.",
		},
		{
			name: "rejected", path: "novels", key: "rejected", body: `{"novel":"` + personal + `"}`,
			want: "novels rejected novel_rejected - " + problem.ErrNovelRejected.Detail,
		},
		{
			name: "blocked", path: "posts", key: "blocked", body: post + `}`,
			want: "posts blocked author_blocked - " + problem.ErrAuthorBlocked.Detail,
		},
		{
			name: "bulk", path: "bulk", header: []string{"Content-Type", ndjson},
			body: `{"operation":"posts","idempotencyKey":"blocked","body":` + post + `}}`,
			want: "r/1 posts blocked author_blocked - " + problem.ErrAuthorBlocked.Detail,
		},
		{
			name: "operation", path: "bulk", header: []string{"Content-Type", ndjson},
			body: `{"operation":"` + personal + `","idempotencyKey":"k"}`,
			want: "r/1 bulk k " + invalid + "operation must be novels, posts, edits or withdrawals",
		},
		{
			name: "bulk as a whole", path: "bulk", body: "{}",
			want: "bulk - unsupported_media_type - The Content-Type must be application/x-ndjson",
		},
		{name: "unknown key", of: "nobody", path: "posts", key: "k", body: "{}"},
		{name: "outage", path: "posts", key: "away", body: post + `}`},
		{name: "defect", path: "posts", key: "defect", body: post + `}`},
		{name: "query", path: "resolve", body: "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testdb.Exec(t, f.pool, `DELETE FROM refusals`)
			of := cmp.Or(c.of, acme.String())
			header := c.header
			if c.key != "" {
				header = append(header, "Idempotency-Key", c.key)
			}
			f.send(t, of, cmp.Or(c.method, http.MethodPost), c.path, c.body, header...)
			f.flush(t)
			var want []string
			if c.want != "" {
				want = []string{c.want}
				if !strings.HasPrefix(c.want, "r/") && c.name != "API key" {
					want = []string{"r " + c.want}
				}
			}
			id, _ := uuid.Parse(of)
			if diff := gocmp.Diff(want, f.list(t, id)); diff != "" {
				t.Errorf("(-want +recorded)\n%s", diff)
			}
			if held := testdb.FindWords(t, f.url, personal, apiKey); len(held) > 0 {
				t.Errorf("the database has %v", held)
			}
		})
	}
}

// TestTheTableIsBounded by number and by age, also for integrations without new refusals.
func TestTheTableIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdb.New(t))
	f.refuse(other, problem.CodeNovelNotFound, 3)
	for range 3 {
		f.refuse(acme, problem.CodeNovelNotFound, refusals.MaxShare)
		f.flush(t)
	}
	f.refuse(acme, problem.CodeNovelRejected, 1)
	f.flush(t)
	newest := testdb.Must(refusals.List(t.Context(), f.pool, refusals.Filter{IntegrationID: acme, Limit: 1}))(t)[0]
	if a, o := f.count(t, acme), f.count(t, other); a != refusals.Most || o != 3 ||
		newest.Code != problem.CodeNovelRejected {
		t.Errorf("%d and %d, newest %+v", a, o, newest)
	}
	f.pass(refusals.Age)
	f.refuse(other, problem.CodeNovelNotFound, 1)
	f.flush(t)
	if a, o := f.count(t, acme), f.count(t, other); a != refusals.Most || o != 4 {
		t.Errorf("after thirty days: %d and %d", a, o)
	}
	f.pass(time.Hour)
	f.flush(t)
	if a, o := f.count(t, acme), f.count(t, other); a != 0 || o != 1 {
		t.Errorf("an hour later, without refusals: %d and %d", a, o)
	}
}

// TestDatabaseIsAway: while the table cannot be written, refusals do not wait; the queue is stored later, and the
// others are counted. A group whose outcome is unknown is not stored twice.
func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdb.New(t))
	lock := testdb.Begin(t, f.pool)
	testdb.Exec(t, lock, `LOCK TABLE refusals`)
	f.refuse(acme, problem.CodeNovelNotFound, 1)
	ctx, cancel := context.WithCancel(t.Context())
	blocked := make(chan error)
	go func() { blocked <- f.Flush(ctx) }()
	testdb.Eventually(t, "the group waits", func() bool {
		return testdb.Value[bool](t, f.pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'refusals'::regclass AND NOT granted)`)
	})
	f.send(t, acme.String(), http.MethodPost, "posts", "{}", "Idempotency-Key", "k") // hangs if it waits
	f.refuse(acme, problem.CodeNovelNotFound, refusals.MaxShare)
	cancel()
	if err := <-blocked; err == nil {
		t.Error("the group is stored")
	}
	testdb.NoError(t, lock.Rollback(t.Context()))
	testdb.NoError(t, f.StoreOnly(t.Context()))
	f.flush(t)
	dropped := testdb.Metric(t, f.Metrics, "novelgate_refusals_dropped_total")
	if n := f.count(t, acme); n != refusals.MaxShare || dropped != 2 {
		t.Errorf("%d are on record, %v dropped", n, dropped)
	}
}

// TestFlood: one integration cannot crowd out another, all together cannot fill the memory, and of rate_limited there
// is one a minute. All are counted.
func TestFlood(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdb.New(t))
	f.refuse(acme, problem.CodeRateLimited, 100)
	f.refuse(acme, problem.CodeNovelNotFound, 5*refusals.MaxShare)
	f.refuse(other, problem.CodeNovelNotFound, 1)
	f.flush(t)
	f.pass(time.Minute)
	f.refuse(acme, problem.CodeRateLimited, 100)
	f.flush(t)
	if a, o := f.count(t, acme), f.count(t, other); a != refusals.MaxShare+1 || o != 1 {
		t.Errorf("%d and %d are on record", a, o)
	}
	for i := range 10 {
		f.refuse(uuid.UUID{9, byte(i)}, problem.CodeNovelNotFound, refusals.MaxShare)
	}
	f.flush(t)
	if n := testdb.Value[int](t, f.pool, `SELECT count(*)::int FROM refusals`); n != refusals.MaxShare+2+refusals.MaxWaiting {
		t.Errorf("%d are on record", n)
	}
	got := testdb.Metrics(t, f.Metrics)
	want := map[string]float64{
		fmt.Sprint("novelgate_refusals_total rate_limited ", acme):    200,
		fmt.Sprint("novelgate_refusals_total novel_not_found ", acme): 5 * refusals.MaxShare,
		"novelgate_refusals_dropped_total":                            14*refusals.MaxShare + 1 - refusals.MaxWaiting,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v; all: %v", name, got[name], value, got)
		}
	}
}

// TestReplicasRecordAtTheSameTime: none fails, and the bound holds.
func TestReplicasRecordAtTheSameTime(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	a, b := newFixture(t, database), newFixture(t, database)
	var both sync.WaitGroup
	for _, f := range []*fixture{a, b} {
		both.Go(func() {
			for range 6 {
				for _, of := range []uuid.UUID{other, acme, disabled} {
					f.refuse(of, problem.CodeNovelNotFound, 250)
				}
				if err := f.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	a.refuse(acme, problem.CodeNovelNotFound, 1)
	a.flush(t)
	// Both may have pruned before the other's last group was there.
	if n := a.count(t, acme); n != refusals.Most || a.count(t, other) > refusals.Most+250 {
		t.Errorf("%d and %d are on record", n, a.count(t, other))
	}
}

// TestRunStoresWhatWaits regularly, and at the end.
func TestRunStoresWhatWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdb.New(t))
	stop := testdb.Background(t, f.Run)
	f.refuse(acme, problem.CodeNovelNotFound, 1)
	testdb.Eventually(t, "it is stored", func() bool { return f.count(t, acme) == 1 })
	f.refuse(acme, problem.CodeNovelNotFound, 1)
	stop()
	if n := f.count(t, acme); n != 2 {
		t.Errorf("%d are on record after the end", n)
	}
}

// TestPartnersReadTheirRefusals: newest first, in pages, filtered, and none of others.
func TestPartnersReadTheirRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testdb.New(t))
	f.send(t, acme.String(), http.MethodPost, "posts", "{}", "Idempotency-Key", "k1")
	f.send(t, acme.String(), http.MethodPost, "novels", "{}", "Idempotency-Key", "k2")
	f.send(t, acme.String(), http.MethodPost, "posts", "{", "Idempotency-Key", "k3", "Content-Type", "text/plain")
	f.flush(t)
	type page struct {
		Items []struct {
			IdempotencyKey string `json:"idempotencyKey"`
		} `json:"items"`
		NextCursor *string `json:"nextCursor"`
	}
	get := func(of uuid.UUID, query string) (keys, cursor string) {
		t.Helper()
		w := f.send(t, of.String(), http.MethodGet, "refusals?"+query, "")
		var found page
		if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil || w.Code != http.StatusOK {
			return fmt.Sprint(w.Code), ""
		}
		for _, item := range found.Items {
			keys += item.IdempotencyKey
		}
		if found.NextCursor != nil {
			cursor = *found.NextCursor
		}
		return keys, cursor
	}
	_, cursor := get(acme, "limit=2")
	for _, c := range []struct {
		of          uuid.UUID
		query, want string
	}{
		{acme, "", "k3k2k1"},
		{acme, "limit=2", "k3k2"},
		{acme, "limit=2&cursor=" + cursor, "k1"},
		{acme, "operation=posts", "k3k1"},
		{acme, "code=invalid_request", "k2k1"},
		{acme, "key=k2", "k2"},
		{acme, "key=k2&operation=posts", ""},
		{other, "", ""},
		{other, "cursor=" + cursor, "400"},
		{acme, "cursor=x", "400"},
		{acme, "code=none", "400"},
		{acme, "operation=me", "400"},
		{acme, "limit=101", "400"},
		{acme, "keys=k", "400"},
	} {
		if got, _ := get(c.of, c.query); got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
}
