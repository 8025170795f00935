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
	"novelgate/internal/testdb"
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
	testdb.NoError(t, projection.Apply(t.Context(), pool, batch))
}

func constraint(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.ConstraintName
	}
	return ""
}

// TestInlineConflicts: a unique index refuses a second row. The command behind it has to be decided again.
func TestInlineConflicts(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	named := func(name string) events.Event {
		return events.IntegrationRegistered{Name: name, RegisteredAt: time.Now()}
	}
	created := func(spelled, slug string) events.Event {
		return events.NovelCreated{Title: spelled, Slug: slug, Author: "A", State: "published"}
	}
	stream := func(streamType string, n byte, event events.Event) []events.Recorded {
		return history(streamType, uuid.UUID{n}, 1, event)
	}
	opened := events.ThreadOpened{NovelID: uuid.UUID{1}}
	for i, c := range []struct {
		projection projections.Projection
		batch      []events.Recorded
		want       string
	}{
		{projections.Integrations{}, stream(events.IntegrationStream, 1, named("Éditions Rivière")), ""},
		{
			projections.Integrations{},
			stream(events.IntegrationStream, 2, named("E\u0301DITIONS\u200b RIVIÈRE")), "integrations_name_key",
		},
		{projections.Threads{}, stream(events.ThreadStream, 1, opened), ""},
		{projections.Threads{}, stream(events.ThreadStream, 2, opened), "threads_pkey"},
		{projections.Titles{}, stream(events.NovelStream, 1, created("Straße", "strasse")), ""},
		{projections.Titles{}, stream(events.NovelStream, 2, created("STRASSE", "strasse-2")), "title_lookup_pkey"},
		{projections.Titles{}, stream(events.NovelStream, 2, created("Another", "strasse")), "title_lookup_slug_key"},
		{projections.Titles{}, slices.Concat(stream(events.NovelStream, 3, created("One", "one")),
			stream(events.NovelStream, 4, created("ONE", "one-2"))), "title_lookup_pkey"},
	} {
		err := c.projection.Apply(t.Context(), pool, c.batch)
		if got := constraint(err); got != c.want || (err == nil) != (c.want == "") {
			t.Errorf("batch %d violates %q, want %q: %v", i, got, c.want, err)
		}
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
