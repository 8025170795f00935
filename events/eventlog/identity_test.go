package eventlog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/eventlog"
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
	err = pool.QueryRow(t.Context(), `SELECT system_identifier, timeline_id, id, pg_postmaster_start_time()
		FROM pg_control_system(), pg_control_checkpoint(), log_identity`).Scan(&want.System, &want.Timeline, &want.Log, &started)
	if err != nil {
		t.Fatal(err)
	}
	want.Started = started.UnixMicro()
	if diff := cmp.Diff(want, identity); diff != "" {
		t.Errorf("identity differs (-want +got):\n%s", diff)
	}
	for _, text := range []any{"", "1 2 3", "1 00000001 x 2", []byte("no"), nil} {
		if err := new(eventlog.Identity).Scan(text); err == nil {
			t.Errorf("%v is taken for an identity", text)
		}
	}
}
