package eventlog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	pool := setupLog(t).pool
	identity, err := eventlog.Identify(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	var stored string
	if err := pool.QueryRow(t.Context(), `SELECT `+eventlog.IdentitySQL).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if identity.String() != stored {
		t.Errorf("%q is rendered as %q", stored, identity)
	}
	var want eventlog.Identity
	var started time.Time
	err = pool.QueryRow(t.Context(), `SELECT system_identifier, timeline_id, id, pg_postmaster_start_time(),
		(SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'events'::regclass::oid
		FROM pg_control_system(), pg_control_checkpoint(), log_identity`).
		Scan(&want.System, &want.Timeline, &want.Log, &started, &want.Table)
	if err != nil {
		t.Fatal(err)
	}
	want.Started = started.UnixMicro()
	if diff := cmp.Diff(want, identity); diff != "" {
		t.Errorf("identity differs (-want +got):\n%s", diff)
	}
	for _, text := range []any{"", "1 2 3", "1 00000001 x 2 5/1", []byte("no"), nil} {
		if err := new(eventlog.Identity).Scan(text); err == nil {
			t.Errorf("%v is taken for an identity", text)
		}
	}
}

// TestRestoredLogIsAnother: a dump that is restored into the same cluster has the log's id, and lacks the events since.
func TestRestoredLogIsAnother(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	identify := func(url string) eventlog.Identity {
		t.Helper()
		conn := testdb.Connect(t, url)
		defer conn.Close(t.Context()) //nolint:errcheck // nobody may be connected with what is copied
		return testdb.Must(eventlog.Identify(t.Context(), conn))(t)
	}
	first, other := identify(url), identify(testdb.Copy(t, url))
	if first == other || first.Log != other.Log {
		t.Errorf("a copy is taken for the same log: %v, %v", first, other)
	}
	testdb.Exec(t, testdb.Connect(t, url), `VACUUM FULL events`)
	if now := identify(url); now != first {
		t.Errorf("a log that was written anew is taken for another one: %v, %v", first, now)
	}
}

// TestAwaitReplicatedOnAStandby: a primary that was demoted counts as unavailable, so a client tries again.
func TestAwaitReplicatedOnAStandby(t *testing.T) {
	t.Parallel()
	_, s := testdb.NewSynchronousPair(t)
	standby := testdb.Connect(t, s.URL)
	testdb.Exec(t, standby, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	testdb.Exec(t, standby, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the setting is read", func() bool {
		return testdb.Value[string](t, standby, `SHOW synchronous_standby_names`) == "*"
	})
	err := eventlog.AwaitReplicated(t.Context(), standby)
	if !eventlog.IsUnavailable(err) || !eventlog.IsAway(err) {
		t.Errorf("the error is %v", err)
	}
}
