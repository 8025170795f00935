package contest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/bench/contest"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	ours := func(perSecond float64) contest.Figures {
		return contest.Figures{
			PerSecond: perSecond, P50: 2 * time.Millisecond, P99: 5 * time.Millisecond,
			Service: 30 * time.Microsecond, Database: 40 * time.Microsecond, Generator: 10 * time.Microsecond,
			CatchUp: 7 * time.Millisecond,
		}
	}
	theirs := contest.Figures{
		PerSecond: 1000, P50: 4 * time.Millisecond, P99: 10 * time.Millisecond,
		Service: 60 * time.Microsecond, Database: 80 * time.Microsecond, Generator: 10 * time.Microsecond,
		Failed: map[string]int{"status 503": 2},
	}
	duel := contest.Duel{
		A: &contest.Contestant{Name: "A"}, B: &contest.Contestant{Name: "B"}, Connections: 64, Duration: time.Second,
		OfA: []contest.Figures{ours(3000), ours(2000), ours(4000)}, OfB: []contest.Figures{theirs, theirs, theirs},
	}
	table, err := duel.Table()
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 0 {
			got = append(got, fields)
		}
	}
	want := [][]string{
		strings.Fields("Connections: 64; 3 pairs of 1s"),
		strings.Fields("median of A B ratio min max"),
		strings.Fields("accepted comments/s 3000 1000 3.00 2.00 4.00"),
		strings.Fields("p50, ms 2.00 4.00 0.50 0.50 0.50"),
		strings.Fields("p99, ms 5.00 10.00 0.50 0.50 0.50"),
		strings.Fields("CPU per comment, µs: service 30.0 60.0 0.50 0.50 0.50"),
		strings.Fields("CPU per comment, µs: database 40.0 80.0 0.50 0.50 0.50"),
		strings.Fields("CPU per comment, µs: sum 70.0 140.0 0.50 0.50 0.50"),
		strings.Fields("CPU per comment, µs: load generator 10.0 10.0"),
		strings.Fields("caught up after, ms 7 0"),
		strings.Fields("noise: processors busy elsewhere 0.00 0.00"),
		strings.Fields("B FAILED: 6 × status 503"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table (-want +got)\n%s", diff)
	}
}
