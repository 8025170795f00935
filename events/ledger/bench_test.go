package ledger_test

import (
	"syscall"
	"testing"
	"time"

	"novelgate/events/ledger"
)

// processTime is the CPU time that this process has used.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkBacklog seals half a million events that were appended before, 16 to a transaction.
func BenchmarkBacklog(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		const transactions, size = 31_250, 16
		pool := newPool(b)
		generate(b, pool, transactions, size)
		if _, err := pool.Exec(b.Context(), `CHECKPOINT`); err != nil {
			b.Fatal(err)
		}
		used := processTime(b)
		b.StartTimer()
		stop := startSealer(b, ledger.SealerConfig{Pool: pool, Pace: ledger.DefaultPace})
		for treeSize(b, pool) < transactions*size {
			time.Sleep(10 * time.Millisecond)
		}
		b.StopTimer()
		b.ReportMetric(transactions*size*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		b.ReportMetric(float64((processTime(b)-used).Nanoseconds())/(transactions*size), "ns-go/event")
		stop()
		b.StartTimer()
	}
}
