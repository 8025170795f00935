package handover_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events/handover"
	"novelgate/events/mirror"
	"novelgate/internal/testdb"
)

// TestCopyPromotions: a mirror has the promotions of its origin, each once, and none of the future; another database
// takes none.
func TestCopyPromotions(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	list := []handover.Promotion{elsewhere[0]}
	list[0].PromotedAt = time.Date(2026, 11, 1, 0, 0, 0, 1000, time.UTC)
	future := elsewhere[0]
	future.ID, future.PromotedAt = uuid.New(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	publish := func() { p.promoted.Store(new(append(list[:len(list):len(list)], future))) }
	publish()
	own, copied := testdb.Pool(t, testdb.New(t)), testdb.Pool(t, testdb.New(t))
	if err := mirror.Begin(t.Context(), copied, p.server.URL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := handover.CopyPromotions(t.Context(), own, p.server.Client(), p.server.URL); err != nil {
			t.Fatal(err)
		}
		if err := handover.CopyPromotions(t.Context(), copied, p.server.Client(), p.server.URL); err != nil {
			t.Fatal(err)
		}
		if got, err := handover.List(t.Context(), own); len(got) > 0 || err != nil {
			t.Errorf("a database that is not a mirror has %v, %v", got, err)
		}
		if got, err := handover.List(t.Context(), copied); err != nil || !cmp.Equal(list, got) {
			t.Errorf("the mirror has %v, %v, want %v", got, err, list)
		}
		next := list[0]
		next.ID, next.PromotedAt = uuid.New(), next.PromotedAt.Add(time.Hour)
		list = append(list[:1:1], next)
		publish()
	}
}

// TestSuccessor: of two mirrors that were promoted side by side, exactly one replaces the other.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	low, high := handover.Promotion{ID: uuid.UUID{1}, PromotedAt: at}, handover.Promotion{ID: uuid.UUID{2}, PromotedAt: at}
	late := handover.Promotion{ID: uuid.UUID{0}, PromotedAt: at.Add(time.Microsecond)}
	untimed := handover.Promotion{ID: uuid.UUID{3}}
	for _, c := range []struct {
		what     string
		known, p handover.Promotion
		replaces bool
	}{
		{"a known one", low, low, false},
		{"a later one", high, late, true},
		{"an earlier one", late, high, false},
		{"one of the same time with a larger id", low, high, true},
		{"one of the same time with a smaller id", high, low, false},
		{"one without a time", late, untimed, true},
	} {
		if got := handover.Successor([]handover.Promotion{c.known}, []handover.Promotion{c.p}); (got != nil) != c.replaces {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
