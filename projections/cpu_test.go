package projections_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cpuTime is processor time that was used so far, by this process and by the database server (0 when it cannot be told:
// the server runs elsewhere, or there is no /proc).
type cpuTime struct{ client, server time.Duration }

func measureCPU(b *testing.B, pool *pgxpool.Pool) cpuTime {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	rows, err := pool.Query(context.Background(), `SELECT pid FROM pg_stat_activity`)
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.Fatal(err)
	}
	t := cpuTime{client: time.Duration(used.Utime.Nano() + used.Stime.Nano())}
	for _, pid := range pids {
		t.server += processCPU(pid)
	}
	return t
}

// processCPU reads /proc/<pid>/stat (proc(5)): fields 14 and 15 are user and system time in ticks of 10 ms.
func processCPU(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, behindName, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(behindName)
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// reportCPU adds the processor time per event since before.
func reportCPU(b *testing.B, pool *pgxpool.Pool, before cpuTime, n int) {
	b.Helper()
	after := measureCPU(b, pool)
	b.ReportMetric(float64((after.client-before.client).Microseconds())/float64(n), "client-µs/event")
	b.ReportMetric(float64((after.server-before.server).Microseconds())/float64(n), "server-µs/event")
}
