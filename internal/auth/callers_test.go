package auth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
)

type (
	call  = auth.Call[*auth.Integration]
	route = auth.Route[*auth.Integration]
)

// owners finds the owners of keys: a partner for each name, except where err is set.
type owners struct {
	err      func(ctx context.Context) error
	disabled atomic.Bool
}

func (o *owners) Authenticate(ctx context.Context, key string) (*auth.Integration, error) {
	if o.err != nil {
		if err := o.err(ctx); err != nil {
			return nil, err
		}
	}
	return &auth.Integration{
		IntegrationID: uuid.NewSHA1(uuid.Nil, []byte(key)), Name: key, Enabled: !o.disabled.Load(), CanPost: key != "unable",
	}, nil
}

func (*owners) AuthenticateStaffUser(context.Context, string) (*auth.StaffUser, error) {
	return nil, auth.ErrMalformed
}

func newKit(timeout time.Duration) *web.Kit {
	return &web.Kit{Logger: slog.New(slog.DiscardHandler), Timeout: timeout, Now: time.Now}
}

// serve returns the handler of one route.
func serve(kit *web.Kit, handler http.Handler) http.Handler {
	router := mux.NewRouter()
	router.Handle("/", handler)
	return kit.Handler(router, nil)
}

func done(context.Context, *call) (*web.Answer, error) { return &web.Answer{}, nil }

// send sends a request with a key, and returns the status and the problem.
func send(t *testing.T, handler http.Handler, key string, body io.Reader) (status int, found struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
},
) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil {
			t.Errorf("body %q: %v", w.Body, err)
		}
	}
	return w.Code, found
}

// slowBody is a body that arrives 60 ms late, and then calls arrived.
func slowBody(arrived func()) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		time.Sleep(60 * time.Millisecond)
		arrived()
		return copy(p, "{}"), io.EOF
	})
}

type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestRevocationDuringASlowBody: what the key may do ends while the body arrives. The operation does not run.
func TestRevocationDuringASlowBody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end    func(o *owners, isAble *bool)
		status int
	}{
		"key": {func(o *owners, _ *bool) {
			o.err = func(context.Context) error { return auth.ErrUnknown }
		}, http.StatusUnauthorized},
		"integration": {func(o *owners, _ *bool) { o.disabled.Store(true) }, http.StatusForbidden},
		"capability":  {func(_ *owners, isAble *bool) { *isAble = false }, http.StatusForbidden},
		"nothing":     {func(*owners, *bool) {}, http.StatusNoContent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, kit, isAble, hasRun := &owners{}, newKit(time.Minute), true, false
			allowed := func(*auth.Integration) error {
				if !isAble {
					return problem.New(problem.CodeCapabilityDisabled, "no")
				}
				return nil
			}
			handler := serve(kit, auth.NewPartners(kit, o.Authenticate).Handle(route{MaxBody: 10, Allowed: allowed},
				func(context.Context, *call) (*web.Answer, error) { hasRun = true; return &web.Answer{}, nil }))
			status, found := send(t, handler, "a", slowBody(func() { test.end(o, &isAble) }))
			if status != test.status || hasRun != (status == http.StatusNoContent) {
				t.Errorf("%d %+v, the operation has run: %t", status, found, hasRun)
			}
		})
	}
}

// TestStaffRoutesRefuseOtherKeys: the key of an integration is 403 on a route of staff, and a key that cannot be looked
// up is not called invalid.
func TestStaffRoutesRefuseOtherKeys(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		nil: http.StatusForbidden, auth.ErrMalformed: http.StatusUnauthorized, auth.ErrUnknown: http.StatusUnauthorized,
		auth.ErrExpired: http.StatusUnauthorized, fmt.Errorf("read: %w", io.ErrUnexpectedEOF): http.StatusServiceUnavailable,
	} {
		kit := newKit(time.Minute)
		staff := auth.NewStaff(kit, &owners{err: func(context.Context) error { return err }})
		handler := serve(kit, staff.Handle(auth.Route[*auth.StaffUser]{},
			func(context.Context, *auth.Call[*auth.StaffUser]) (*web.Answer, error) {
				return &web.Answer{}, nil
			}))
		if status, found := send(t, handler, "key", http.NoBody); status != want {
			t.Errorf("%v: %d %+v, want %d", err, status, found, want)
		}
	}
}

// TestAFloodOfQueriesDelaysOnlyQueriesOfItsCaller: twelve queries of a caller run, others wait, and get 429 when their
// time is up. Meanwhile its commands and another caller are served.
func TestAFloodOfQueriesDelaysOnlyQueriesOfItsCaller(t *testing.T) {
	t.Parallel()
	kit, o := newKit(100*time.Millisecond), &owners{}
	partners := auth.NewPartners(kit, o.Authenticate)
	var running atomic.Int64
	released := make(chan struct{})
	query := serve(kit, partners.Handle(route{}, func(context.Context, *call) (*web.Answer, error) {
		running.Add(1)
		defer running.Add(-1)
		<-released
		return &web.Answer{}, nil
	}))
	command := serve(kit, partners.Handle(route{Command: "posts"}, done))
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if status, found := send(t, query, "flooder", http.NoBody); status != http.StatusNoContent {
				t.Errorf("a query: %d %+v", status, found)
			}
		})
	}
	testdb.Eventually(t, "twelve queries run", func() bool { return running.Load() == 12 })
	if status, found := send(t, query, "flooder", http.NoBody); status != http.StatusTooManyRequests ||
		found.Code != "rate_limited" {
		t.Errorf("one more: %d %+v", status, found)
	}
	for _, caller := range []string{"flooder", "other"} {
		if status, found := send(t, command, caller, http.NoBody); status != http.StatusNoContent {
			t.Errorf("a command of %s: %d %+v", caller, status, found)
		}
	}
	close(released)
	all.Wait()
	if status, found := send(t, query, "flooder", http.NoBody); status != http.StatusNoContent {
		t.Errorf("afterwards: %d %+v", status, found)
	}
}

// TestAFloodOfRefusalsDelaysOnlyItsCaller: refused requests keep their permits for a while, so that a caller who
// repeats them without a pause has none left. Callers without a valid key do not take those of others.
func TestAFloodOfRefusalsDelaysOnlyItsCaller(t *testing.T) {
	t.Parallel()
	kit, o := newKit(20*time.Millisecond), &owners{}
	handler := serve(kit, auth.NewPartners(kit, o.Authenticate).Handle(route{
		Command: "posts",
		Allowed: func(caller *auth.Integration) error {
			if !caller.CanPost {
				return problem.New(problem.CodeCapabilityDisabled, "no")
			}
			return nil
		},
	}, done))
	unknown := serve(kit, auth.NewPartners(kit, func(context.Context, string) (*auth.Integration, error) {
		return nil, auth.ErrUnknown
	}).Handle(route{}, done))
	begun := time.Now()
	for status := http.StatusForbidden; status == http.StatusForbidden; {
		status, _ = send(t, handler, "unable", http.NoBody)
		if time.Since(begun) > time.Minute {
			t.Fatal("a caller who is refused without a pause still has permits")
		}
	}
	for range 300 {
		if status, _ := send(t, unknown, "unknown", http.NoBody); status != http.StatusUnauthorized {
			t.Fatalf("an unknown key: %d", status)
		}
	}
	if status, found := send(t, handler, "able", http.NoBody); status != http.StatusNoContent {
		t.Errorf("another caller: %d %+v", status, found)
	}
	testdb.Eventually(t, "the caller is refused as before", func() bool {
		status, _ := send(t, handler, "unable", http.NoBody)
		return status == http.StatusForbidden
	})
}

// TestAPanicReturnsThePermits: an operation that breaks off its answer keeps no permits.
func TestAPanicReturnsThePermits(t *testing.T) {
	t.Parallel()
	kit, o := newKit(20*time.Millisecond), &owners{}
	handler := serve(kit, auth.NewPartners(kit, o.Authenticate).Handle(route{},
		func(context.Context, *call) (*web.Answer, error) { panic(http.ErrAbortHandler) }))
	for range 20 {
		cause := func() (cause any) {
			defer func() { cause = recover() }()
			send(t, handler, "a", strings.NewReader(""))
			return nil
		}()
		if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Fatalf("ended with %v", cause)
		}
	}
}

// TestEachRefusedCommandIsOneLine: five a second are logged, with neither key nor body, and the others are counted.
func TestEachRefusedCommandIsOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &testdb.Log{}
		kit := newKit(time.Minute)
		kit.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
				if attr.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return attr
			},
		}))
		id := uuid.New()
		var fails error
		partners := auth.NewPartners(kit, func(_ context.Context, key string) (*auth.Integration, error) {
			if key == "unknown" {
				return nil, auth.ErrUnknown
			}
			return &auth.Integration{IntegrationID: id, Enabled: true}, nil
		})
		router := mux.NewRouter()
		operation := func(context.Context, *call) (*web.Answer, error) { return &web.Answer{}, fails }
		router.Handle("/api/posts", partners.Handle(route{Command: "posts"}, operation))
		router.Handle("/api/query", partners.Handle(route{}, operation))
		handler := kit.Handler(router, nil)
		send := func(path, apiKey, key string, err error) {
			fails = err
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("a body"))
			r.Header = http.Header{"Authorization": {"Bearer " + apiKey}, "X-Request-Id": {"r"}, "Idempotency-Key": {key}}
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		send("/api/posts", "known", "k1", nil)
		send("/api/query", "known", "", problem.ErrNotFound)
		send("/api/posts", "unknown", "k2", nil)
		send("/api/posts", "known", "no key", nil)
		send("/api/posts", "known", "ngp_"+strings.Repeat("x", 36), problem.ErrNovelNotFound)
		for range 9 {
			send("/api/posts", "known", "k3", problem.RateLimited(time.Second))
		}
		time.Sleep(2 * time.Second)
		send("/api/posts", "known", "k4", problem.ErrNovelNotFound)
		time.Sleep(2 * time.Second)

		const head = `level=INFO msg="command refused" requestId=r integration=`
		of := head + id.String() + " operation=posts status="
		want := []string{
			head + `"" operation=posts status=401 code=unauthorized key=k2`,
			of + `400 code=invalid_idempotency_key key=""`,
			of + `404 code=novel_not_found key=ngp_xxxx…`,
			of + `429 code=rate_limited key=k3`,
			of + `429 code=rate_limited key=k3`,
			`level=INFO msg="more commands refused" commands=7`,
			of + `404 code=novel_not_found key=k4`,
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(log.String()), "\n")); diff != "" {
			t.Errorf("the log (-want +got)\n%s", diff)
		}

		*log = testdb.Log{}
		send("/api/posts", "known", "k5", context.DeadlineExceeded)
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"request failed"`) {
			t.Errorf("an outage is logged as\n%s", got)
		}
	})
}
