package ledger_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// processTime returns the CPU time of this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkBacklog seals half a million events that were appended before, 16 together. Use your own server, see
// testdb, to measure a real disk.
func BenchmarkBacklog(b *testing.B) {
	const appends, size = 31_250, 16
	var took, used time.Duration
	for b.Loop() {
		b.StopTimer()
		pool := newPool(b)
		generate(b, pool, appends, size)
		testdb.Exec(b, pool, `CHECKPOINT`)
		cpu, began := processTime(b), time.Now()
		b.StartTimer()
		stop := startSealer(b, ledger.SealerConfig{Pool: pool, Pace: ledger.DefaultPace})
		for treeSize(b, pool) < appends*size {
			time.Sleep(10 * time.Millisecond)
		}
		b.StopTimer()
		took += time.Since(began)
		used += processTime(b) - cpu
		stop()
		b.StartTimer()
	}
	events := appends * size * float64(b.N)
	b.ReportMetric(events/took.Seconds(), "events/s")
	b.ReportMetric(float64(used.Nanoseconds())/events, "go-ns/event")
}

// BenchmarkFollow appends 1000 events a second, ten together, and measures how long they wait until they are sealed.
func BenchmarkFollow(b *testing.B) {
	const size, interval = 10, 10 * time.Millisecond
	pool := newPool(b)
	wake := eventlog.NewWake()
	startSealer(b, ledger.SealerConfig{Pool: pool, Wake: wake, Pace: ledger.DefaultPace})
	appendEvents(b, pool, size)
	awaitSealed(b, pool) // from here on, connections are open
	appended := make(chan time.Time, 1<<20)
	var waits []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		want := int64(size)
		for at := range appended {
			for want += size; treeSize(b, pool) < want; {
				time.Sleep(time.Millisecond)
			}
			waits = append(waits, time.Since(at))
		}
	})
	used := processTime(b)
	for b.Loop() {
		began := time.Now()
		appendEvents(b, pool, size)
		appended <- time.Now()
		wake.Signal()
		time.Sleep(interval - time.Since(began))
	}
	close(appended)
	wg.Wait()
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64((processTime(b)-used).Nanoseconds())/float64(b.N*size), "go-ns/event")
}

// BenchmarkProof proves random entries of a ledger of ten million.
func BenchmarkProof(b *testing.B) {
	const size, step = 10_000_000, 1 << 16
	pool := newPool(b)
	tree := ledger.NewTree()
	leaf := func(n int64) tlog.Hash { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	for n := int64(0); n < size; n += step {
		leaves := make([]tlog.Hash, min(step, size-n))
		for i := range leaves {
			leaves[i] = leaf(n + int64(i))
		}
		pieces := testdb.Must(tree.Grow(leaves))(b)
		rows := make([][]any, len(pieces))
		for i, p := range pieces {
			rows[i] = []any{p.Level, p.First, p.Hashes}
		}
		testdb.Must(pool.CopyFrom(b.Context(), pgx.Identifier{"ledger_tiles"}, []string{"level", "first_node", "hashes"},
			pgx.CopyFromRows(rows)))(b)
	}
	root := tree.Root()
	testdb.Exec(b, pool, `ALTER TABLE ledger_state DISABLE TRIGGER ledger_state_only_grows`) // there are no events
	testdb.Exec(b, pool, `UPDATE ledger_state SET tree_size = $1, root_hash = $2`, size, root[:])
	signer := newSigner(b, pool, ledger.IdentityConfig{})
	if err := signer.Sign(b.Context()); err != nil {
		b.Fatal(err)
	}
	store := ledger.NewStore(pool)
	var times []time.Duration
	for b.Loop() {
		n := rand.Int64N(size)
		began := time.Now()
		proof := testdb.Must(store.Proof(b.Context(), n))(b)
		times = append(times, time.Since(began))
		wantProof(b, proof, n, leaf(n), signer.Keys())
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}
