package rebuild_test

import (
	"errors"
	"testing"

	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestOptional switches a projection on and off while a replica follows the log. It has rows only while it is on, and
// only after it was built from the whole log; nothing of an unfinished rebuild stays.
func TestOptional(t *testing.T) {
	t.Parallel()
	pool := filled(t, "before", 300)
	words := projections.Words{}
	upgrade := rebuild.UpgradeConfig{Pool: pool, Projections: []projections.Projection{words}, Logger: quiet()}
	follow(t, pool, words)
	wantNothing := func() {
		t.Helper()
		rebuild.Upgrade(t.Context(), upgrade)
		_, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: words, Logger: quiet()})
		if !errors.Is(err, projections.ErrOff) {
			t.Errorf("a rebuild: %v", err)
		}
		for _, table := range []string{"projections", "projection_rebuilds", "post_words"} {
			wantRows(t, pool, table, 0)
		}
		if left := buildSchemas(t, pool); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
		if built := testdb.Must(projections.Built(t.Context(), pool))(t); len(built) != len(projections.All()) {
			t.Errorf("built are %v", built)
		}
	}
	wantNothing()
	testdb.NoError(t, rebuild.SwitchOff(t.Context(), pool, words))
	wantNothing()

	testdb.NoError(t, rebuild.SwitchOn(t.Context(), pool, words))
	interrupt(t, rebuild.Config{Pool: pool, Projection: words, ChunkSize: 10}, 50)
	append1(t, pool, comments(seeded(2), "meanwhile", 100)...)
	wantRows(t, pool, "post_words", 0)
	testdb.NoError(t, rebuild.SwitchOff(t.Context(), pool, words))
	wantNothing()

	for range 2 {
		testdb.NoError(t, rebuild.SwitchOn(t.Context(), pool, words))
		rebuild.Upgrade(t.Context(), upgrade)
	}
	append1(t, pool, comments(seeded(3), "after", 100)...)
	caughtUp(t, pool, words.Name())
	compared := compare(t, pool, words.Name())
	if found := differences(compared); found != "" || compared.Tables[0].Rows < 300 {
		t.Errorf("%+v", compared)
	}
	if built := testdb.Must(projections.Built(t.Context(), pool))(t); len(built) != len(projections.All())+1 {
		t.Errorf("built are %v", built)
	}
	testdb.NoError(t, rebuild.SwitchOff(t.Context(), pool, words))
	append1(t, pool, comments(seeded(4), "off", 100)...)
	wantNothing()
}
