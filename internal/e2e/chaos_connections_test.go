package e2e_test

import (
	"sync"
	"testing"

	"novelgate/internal/testdb"
)

// TestConnectionsStayBelowTheLimit: a replica under load, with readers, and with a projection that is rebuilt for newer
// code, opens no more connections than it may, and gets everything done with them.
func TestConnectionsStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	for flags, limit := range map[string]int{"": 20, "--database-connections=15": 15} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			database := startServer(t, nil)
			l := newLoad(t, newPartner(t, database.url()))
			arguments := []string{"--lanes", "2"}
			if flags != "" {
				arguments = append(arguments, flags)
			}
			service := serve(t, database.url(), arguments...)
			l.aim(service)
			l.start(16)
			l.book.await(200)
			execute(t, database.url(), `UPDATE projections SET generation = generation - 1 WHERE name = 'posts'`)
			var readers sync.WaitGroup
			for range 8 {
				readers.Go(func() {
					for range 40 {
						if status, body := Get(t, service.URL+"/novels"); status != 200 {
							t.Errorf("a page is answered with %d %s", status, body)
							return
						}
					}
				})
			}
			most := 0
			testdb.Eventually(t, "the projection is rebuilt", func() bool {
				most = max(most, value[int](t, database.url(),
					`SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'novelgate%'`))
				return value[bool](t, database.url(),
					`SELECT EXISTS (SELECT FROM projection_rebuilds WHERE name = 'posts' AND phase = 'finished')`)
			})
			readers.Wait()
			l.book.await(200)
			l.stop()
			if most > limit || most < limit/2 {
				t.Errorf("%d connections, at most %d", most, limit)
			}
			l.book.reconcile(t, l.Partner, service, database.url())
		})
	}
}
