package eventlog_test

import (
	"testing"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

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
