package cpu_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/bench/cpu"
)

const tail = " S 41 42 42 0 -1 4194560 1 2 3 4 150 25 7 3 20 0 1 0 5 6 7"

func TestParseStat(t *testing.T) {
	t.Parallel()
	want := cpu.Stat{PID: 42, Parent: 41, Used: 1750 * time.Millisecond, Reaped: 100 * time.Millisecond}
	for _, name := range []string{"postgres", "a (b) c", ") S 1 (", "postgres: bench [local] idle"} {
		got, err := cpu.ParseStat("42 (" + name + ")" + tail + "\n")
		if err != nil {
			t.Errorf("ParseStat with the name %q: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseStat with the name %q (-want +got)\n%s", name, diff)
		}
	}
}

func TestParseStatRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "42 postgres S 41", "42 (postgres) S 41 1 2", "x (postgres)" + tail, ") (",
		"42 (p) S x 42 42 0 -1 4194560 1 2 3 4 150 25 7 3 20",
	} {
		if got, err := cpu.ParseStat(line); err == nil {
			t.Errorf("ParseStat(%q) = %+v, want an error", line, got)
		}
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	got, err := cpu.ParseMachine("cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if want := 1710 * time.Millisecond; err != nil || got != want {
		t.Errorf("ParseMachine = %v, %v; want %v", got, err, want)
	}
	for _, content := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9 10", "cpu 1 2 3 4 5 6 7 x"} {
		if got, err := cpu.ParseMachine(content); err == nil {
			t.Errorf("ParseMachine(%q) = %v, want an error", content, got)
		}
	}
}
