package projections_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/title"
	"novelgate/projections"
)

// history is a stream: these events from this version on.
func history(streamType string, id uuid.UUID, from int, list ...events.Event) []events.Recorded {
	recorded := make([]events.Recorded, len(list))
	for i, event := range list {
		recorded[i] = events.Recorded{
			StreamType: streamType, StreamID: id, StreamVersion: from + i,
			ID: fmt.Sprintf("%s-%d", id, from+i), Source: "tests", Event: event,
		}
	}
	return recorded
}

func applyBatch(t testing.TB, pool *pgxpool.Pool, projection projections.Projection, batch []events.Recorded) {
	t.Helper()
	if err := projection.Apply(t.Context(), pool, batch); err != nil {
		t.Fatal(err)
	}
}

func constraint(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.ConstraintName
	}
	return ""
}

// What a unique index refuses is no redelivery.
func TestInlineConflicts(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for n, want := range []string{"", "integrations_name_key"} {
		err := (projections.Integrations{}).Apply(t.Context(), pool, history(events.IntegrationStream, uuid.UUID{byte(n)}, 1,
			events.IntegrationRegistered{Name: []string{"Éditions Rivière", "E\u0301DITIONS\u200b RIVIÈRE"}[n], RegisteredAt: time.Now()}))
		if got := constraint(err); got != want || (err == nil) != (want == "") {
			t.Errorf("integration %d of one name violates %q: %v", n+1, got, err)
		}
	}
	for n, want := range []string{"", "threads_pkey"} {
		err := (projections.Threads{}).Apply(t.Context(), pool, history(events.ThreadStream, uuid.UUID{byte(n)}, 1,
			events.ThreadOpened{NovelID: uuid.UUID{1}}))
		if got := constraint(err); got != want || (err == nil) != (want == "") {
			t.Errorf("thread %d of one novel violates %q: %v", n+1, got, err)
		}
	}
}

// TestTitlesSurfaceClashes: the command that made the novel has to be decided again.
func TestTitlesSurfaceClashes(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	first := events.NovelCreated{Title: "Straße", Slug: "strasse", Author: "A", State: "published"}
	applyBatch(t, pool, projections.Titles{}, history(events.NovelStream, uuid.UUID{1}, 1, first))
	for want, clash := range map[string]events.NovelCreated{
		"title_lookup_pkey":     {Title: "STRASSE", Slug: "strasse-2", Author: "A", State: "published"},
		"title_lookup_slug_key": {Title: "Another", Slug: "strasse", Author: "A", State: "published"},
	} {
		err := projections.Titles{}.Apply(t.Context(), pool, history(events.NovelStream, uuid.UUID{2}, 1, clash))
		if got := constraint(err); got != want {
			t.Errorf("violates %q, want %q: %v", got, want, err)
		}
	}
	within := slices.Concat(history(events.NovelStream, uuid.UUID{3}, 1,
		events.NovelCreated{Title: "One", Slug: "one", State: "published"}),
		history(events.NovelStream, uuid.UUID{4}, 1, events.NovelCreated{Title: "ONE", Slug: "one-2", State: "published"}))
	if got := constraint(projections.Titles{}.Apply(t.Context(), pool, within)); got != "title_lookup_pkey" {
		t.Errorf("within a batch: violates %q", got)
	}
}

// TestLongestTitlesFitTheIndex: 300 code points fold to over 3,600 bytes, and an index entry may take 2,704. PostgreSQL
// compresses entries; titles that expand most must stay compressible enough.
func TestLongestTitlesFitTheIndex(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	expanders := greatestExpanders()
	random := seeded(1)
	titles := map[string]string{
		"one musical symbol": strings.Repeat("\U0001D160", title.MaxLen),
		"four-byte letters":  distinct(0x20000, title.MaxLen),
		"emoji":              distinct(0x1F300, title.MaxLen),
		"Hangul":             distinct(0xAC00, title.MaxLen),
		"Greek with iota":    strings.Repeat("ᾂᾃᾄᾅᾆᾇᾢᾣᾤᾥᾦᾧ", title.MaxLen/12),
	}
	for i := range 40 {
		var b strings.Builder
		pick := expanders[:1+random.IntN(len(expanders))]
		for range title.MaxLen {
			b.WriteRune(pick[random.IntN(len(pick))])
		}
		titles[fmt.Sprintf("mix %d of %d", i, len(pick))] = b.String()
	}
	longest := 0
	n := byte(0)
	for name, spelled := range titles {
		if got := utf8.RuneCountInString(spelled); got != title.MaxLen {
			t.Fatalf("%s has %d code points", name, got)
		}
		longest = max(longest, len(title.Fold(spelled)))
		n++
		err := projections.Titles{}.Apply(t.Context(), pool, history(events.NovelStream, uuid.UUID{n}, 1,
			events.NovelCreated{Title: spelled, Slug: fmt.Sprintf("slug-%d", n), Author: "A", State: "published"}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if longest <= 2704 {
		t.Errorf("the longest folded title has %d bytes: this test tries nothing", longest)
	}
}

// greatestExpanders are the code points whose keys are longest.
func greatestExpanders() []rune {
	var all []rune
	for r := rune(0x80); r <= 0x2FA1F; r++ {
		if utf8.ValidRune(r) && len(title.Fold(string(r))) >= 6 {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b rune) int { return len(title.Fold(string(b))) - len(title.Fold(string(a))) })
	return all
}

func distinct(from rune, n int) string {
	var b strings.Builder
	for r := from; r < from+rune(n); r++ {
		b.WriteRune(r)
	}
	return b.String()
}
