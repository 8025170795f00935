package cpu_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"novelgate/internal/bench/cpu"
)

func TestUsageGrows(t *testing.T) {
	t.Parallel()
	before, err := cpu.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for used := before; used <= before; { // burns what it waits for
		if used, err = cpu.Process(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFamilyCountsChildrenThatHaveEnded(t *testing.T) {
	t.Parallel()
	before, err := cpu.Family(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	after, err := cpu.Family(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	spent := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	if got := after - before; got < spent-40*time.Millisecond {
		t.Errorf("the family used %v, its child alone %v", got, spent)
	}
}
