package pgserver_test

import (
	"strings"
	"testing"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// TestStandby: a standby is made while the primary is written to. It has everything, and everything that comes later.
func TestStandby(t *testing.T) {
	t.Parallel()
	primary := start(t, pgserver.Config{DataDir: dataDir(t)})
	query(t, primary.URL(), `CREATE TABLE counted AS SELECT generate_series(1, 100000) AS n; SELECT 1`)
	const insert = `INSERT INTO counted SELECT max(n) + 1 FROM counted RETURNING n`
	stopped, writing := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(writing)
		for {
			select {
			case <-stopped:
				return
			default:
				query(t, primary.URL(), insert)
			}
		}
	}()
	query(t, primary.URL(), `SELECT pg_create_physical_replication_slot('persistent', true)`)
	dir := dataDir(t)
	standby, err := primary.StartStandby(t.Context(), pgserver.Config{DataDir: dir})
	close(stopped)
	<-writing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, standby) })
	last := query(t, primary.URL(), insert)[0]
	testdb.Eventually(t, "the standby has the last row, and all before it", func() bool {
		row := query(t, standby.URL(), `SELECT max(n), count(*), pg_is_in_recovery() FROM counted`)
		return row[0] == last && row[1] == last && row[2] == "t"
	})
	// A copy of a slot would keep WAL in the standby for ever.
	if slots := query(t, standby.URL(), `SELECT count(*) FROM pg_replication_slots`)[0]; slots != "0" {
		t.Errorf("the standby has %s replication slots", slots)
	}
	// A standby starts again by itself, and is not made again.
	stop(t, standby)
	if _, err := primary.StartStandby(t.Context(), pgserver.Config{DataDir: dir}); err == nil ||
		!strings.Contains(err.Error(), "has data already") {
		t.Errorf("error = %v", err)
	}
	standby = start(t, pgserver.Config{DataDir: dir})
	last = query(t, primary.URL(), insert)[0]
	testdb.Eventually(t, "the standby goes on", func() bool {
		return query(t, standby.URL(), `SELECT max(n) FROM counted`)[0] == last
	})
}
