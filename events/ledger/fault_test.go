package ledger_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

var errCut = errors.New("cut by the test")

// cutter cuts every connection of a pool at the n-th read or write in total, once.
type cutter struct {
	at    int64 // 0: never
	reads bool  // cut before a read: the request arrives, and its answer is lost
	seen  atomic.Int64
}

func (c *cutter) due(read bool) bool { return c.reads == read && c.at > 0 && c.seen.Add(1) == c.at }

type cutConn struct {
	net.Conn
	cutter *cutter
}

func (c cutConn) Read(p []byte) (int, error) {
	if c.cutter.due(true) {
		_ = c.Close()
		return 0, errCut
	}
	return c.Conn.Read(p)
}

func (c cutConn) Write(p []byte) (int, error) {
	if c.cutter.due(false) {
		_ = c.Close()
		return 0, errCut
	}
	return c.Conn.Write(p)
}

// cutPool connects through a cutter.
func cutPool(t testing.TB, url string, cut *cutter) *pgxpool.Pool {
	t.Helper()
	config := testdb.Must(pgxpool.ParseConfig(url))(t)
	config.MaxConns = 4
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return cutConn{conn, cut}, nil
	}
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

// TestCutAtEveryStep cuts the sealer's connection before each of its reads and writes, so before every statement and
// between every commit and its answer. The sealer continues by itself.
func TestCutAtEveryStep(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := openPool(t, url)
	for _, reads := range []bool{false, true} {
		for at := int64(1); ; at++ {
			cut := &cutter{at: at, reads: reads}
			appendEvents(t, pool, 150)
			own := cutPool(t, url, cut)
			stop := startSealer(t, ledger.SealerConfig{Pool: own, Limit: 100})
			awaitSealed(t, pool)
			stop()
			own.Close() // all tests share the connections of the server
			if cut.seen.Load() < at {
				t.Logf("reads %t: %d steps", reads, at-1)
				if at < 10 {
					t.Errorf("only %d steps were cut", at-1)
				}
				break
			}
			if at > 200 {
				t.Fatal("a run has no end of steps")
			}
		}
		wantSound(t, pool)
	}
}
