package staff_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/client"
	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// remote returns a Remote on the fixture. It loses the first answers to POST.
func (d *fixture) remote(t *testing.T, lost int) *staff.Remote {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && lost > 0 {
			lost--
			d.handler.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		d.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &staff.Remote{Client: testdb.Must(client.New(server.URL, d.ada))(t)}
}

// TestRemoteReadsAllPages: lists are those of the database, however many pages they have. internal/e2e compares all
// commands.
func TestRemoteReadsAllPages(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	id := uuid.MustParse(d.integrationID)
	for range 101 {
		if _, _, err := d.staff.IssueKey(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	remote := d.remote(t, 0)
	first := testdb.Must(d.staff.ListKeys(t.Context(), id, uuid.Nil, 1))(t)[0].ID
	for _, c := range []struct {
		of, from uuid.UUID
		limit    int
	}{{id, uuid.Nil, 0}, {uuid.Nil, uuid.Nil, 101}, {id, first, 100}, {uuid.Nil, first, 2}} {
		want := testdb.Must(d.staff.ListKeys(t.Context(), c.of, c.from, c.limit))(t)
		got := testdb.Must(remote.ListKeys(t.Context(), c.of, c.from, c.limit))(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-database +remote)\n%s", c, diff)
		}
	}
}

// TestRemoteLosesKey: a new key whose answer is lost is not issued twice, and the error says what to do.
func TestRemoteLosesKey(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	id := uuid.MustParse(d.integrationID)
	_, _, err := d.remote(t, 1).IssueKey(t.Context(), id, time.Hour)
	keys := testdb.Must(d.staff.ListKeys(t.Context(), id, uuid.Nil, 0))(t)
	if len(keys) != 2 || err == nil || !strings.Contains(err.Error(), "novelgate key revoke "+keys[1].ID.String()) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// TestRemoteInterrupted: after an interrupt it is unknown whether the service has made a change.
func TestRemoteInterrupted(t *testing.T) {
	t.Parallel()
	for _, change := range []bool{false, true} {
		ctx, watch := database.StartWatch(t.Context(), func(string) {})
		ctx, interrupt := context.WithCancel(ctx)
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			interrupt()
			<-ctx.Done()
		}))
		remote := &staff.Remote{Client: testdb.Must(client.New(server.URL, "k"))(t)}
		var err error
		if change {
			_, err = remote.HidePost(ctx, uuid.New(), "why")
		} else {
			_, err = remote.Post(ctx, uuid.New())
		}
		watch.Stop()
		server.Close()
		if !errors.Is(err, context.Canceled) || watch.OutcomeUnknown() != change {
			t.Errorf("a change: %t, the outcome is unknown: %t, %v", change, watch.OutcomeUnknown(), err)
		}
	}
}

// TestRemoteGivesUp: repetitions end. Only of a change the outcome is unknown then.
func TestRemoteGivesUp(t *testing.T) {
	t.Parallel()
	repeated := 0
	count := client.WithRetryFunc(func(error, time.Duration) { repeated++ })
	away := testdb.Must(client.New("http://127.0.0.1:1", "k", count))(t)
	remote := &staff.Remote{Client: away, Patience: 3 * time.Second}
	for _, change := range []bool{false, true} {
		repeated = 0
		ctx, watch := database.StartWatch(t.Context(), func(string) {})
		var err error
		if change {
			_, err = remote.HidePost(ctx, uuid.New(), "why")
		} else {
			_, err = remote.Post(ctx, uuid.New())
		}
		watch.Stop()
		if err == nil || repeated == 0 || strings.Contains(err.Error(), "\n") || watch.OutcomeUnknown() != change ||
			!strings.HasPrefix(err.Error(), "the service did not answer within 3s: ") ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("after %d repetitions: %v", repeated, err)
		}
	}
}
