package blackbox_test

import (
	"strings"
	"testing"

	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

// A difference goes forward, whichever of its points are times and which are log indexes.
func TestEventsDiffGoesForward(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, testdb.New(t))
	const future = "2999-01-01T00:00:00Z"
	if out := s.CLI(t, "integration", "create", "Acme"); out.Code != 0 {
		t.Fatal(out.Stderr)
	}
	if out := s.CLI(t, "integration", "limit", "Acme", "--posts-per-minute", "7"); out.Code != 0 {
		t.Fatal(out.Stderr)
	}
	testdb.Eventually(t, "the changed limit is sealed", func() bool {
		out := s.CLI(t, "events", "diff", "--from", "0", "--to", future, "integration", "Acme")
		return out.Code == 0 && strings.Contains(out.Stdout, "postsPerMinute")
	})
	for _, points := range [][2]string{{future, "0"}, {future, "2998-01-01T00:00:00Z"}, {"1", "0"}} {
		out := s.Refused(t, "events", "diff", "--from", points[0], "--to", points[1], "integration", "Acme")
		if out.Stdout != "" || !strings.Contains(out.Stderr, "--from is later than --to") {
			t.Errorf("from %s to %s: %s%s", points[0], points[1], out.Stdout, out.Stderr)
		}
	}
}
