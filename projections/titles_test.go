package projections_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/internal/title"
	"novelgate/projections"
)

// titleLookup is a row of title_lookup.
type titleLookup struct {
	NovelID                    uuid.UUID
	Folded, Slug, Title, State string
	Owner                      uuid.NullUUID
	Version                    int
	Details                    novel.Details
}

func readTitle(t testing.TB, pool *pgxpool.Pool, novelID uuid.UUID) titleLookup {
	t.Helper()
	row := titleLookup{NovelID: novelID}
	var details []byte
	err := pool.QueryRow(t.Context(),
		`SELECT folded_title, slug, title, state, owner_id, stream_version, details FROM title_lookup WHERE novel_id = $1`,
		novelID).
		Scan(&row.Folded, &row.Slug, &row.Title, &row.State, &row.Owner, &row.Version, &details)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(details, &row.Details); err != nil {
		t.Fatal(err)
	}
	return row
}

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

func TestTitlesFollowANovel(t *testing.T) {
	t.Parallel()
	partner := uuid.UUID{1}
	created := events.NovelCreated{
		Title: "Straße  ", Slug: "strasse", Author: "A", Synopsis: "S", Genres: []string{"g"}, OwnerID: &partner,
		State: "approved",
	}
	updated := events.NovelUpdated{Author: new("B"), Synopsis: new(""), Genres: new([]string{})}
	barred := events.NovelBarred{Title: "STRASSE", Slug: "strasse", Reason: "spam"}
	hosts := events.NovelCreated{Title: "Straße  ", Slug: "strasse", Author: "H", State: "published"}
	nobodys := func(state string) func(*titleLookup) {
		return func(r *titleLookup) { r.State, r.Title, r.Owner = state, "STRASSE", uuid.NullUUID{} }
	}
	base := titleLookup{
		Folded: "strasse", Slug: "strasse", Title: "Straße  ", Owner: uuid.NullUUID{UUID: partner, Valid: true},
	}
	for name, c := range map[string]struct {
		history []events.Event
		then    func(*titleLookup)
	}{
		"created": {[]events.Event{created}, func(r *titleLookup) {
			r.State, r.Details = "approved", novel.Details{Author: "A", Synopsis: "S", Genres: []string{"g"}}
		}},
		"updated and cleared": {[]events.Event{created, updated}, func(r *titleLookup) {
			r.State, r.Details = "approved", novel.Details{Author: "B", Genres: []string{}}
		}},
		"updated twice": {[]events.Event{created, updated, events.NovelUpdated{Synopsis: new("T")}}, func(r *titleLookup) {
			r.State, r.Details = "approved", novel.Details{Author: "B", Synopsis: "T", Genres: []string{}}
		}},
		"rejected": {[]events.Event{created, events.NovelRejected{}}, func(r *titleLookup) {
			r.State, r.Details = "rejected", novel.Details{Author: "A", Synopsis: "S", Genres: []string{"g"}}
		}},
		"approved again": {[]events.Event{created, events.NovelRejected{}, events.NovelApproved{}}, func(r *titleLookup) {
			r.State, r.Details = "approved", novel.Details{Author: "A", Synopsis: "S", Genres: []string{"g"}}
		}},
		"adopted by the host": {[]events.Event{created, updated, events.NovelPublished{}}, func(r *titleLookup) {
			r.State, r.Owner, r.Details = "published", uuid.NullUUID{}, novel.Details{Author: "B", Genres: []string{}}
		}},
		"barred":       {[]events.Event{barred}, nobodys("rejected")},
		"free":         {[]events.Event{barred, events.NovelUnbarred{}}, nobodys("free")},
		"barred again": {[]events.Event{barred, events.NovelUnbarred{}, barred}, nobodys("rejected")},
		"free, then created by a partner": {[]events.Event{barred, events.NovelUnbarred{}, created}, func(r *titleLookup) {
			r.State, r.Details = "approved", novel.Details{Author: "A", Synopsis: "S", Genres: []string{"g"}}
		}},
		"free, then created, changed and adopted": {[]events.Event{
			barred, events.NovelUnbarred{}, created, updated, events.NovelPublished{},
		}, func(r *titleLookup) {
			r.State, r.Owner, r.Details = "published", uuid.NullUUID{}, novel.Details{Author: "B", Genres: []string{}}
		}},
		"free, then published": {[]events.Event{barred, events.NovelUnbarred{}, hosts}, func(r *titleLookup) {
			r.State, r.Owner, r.Details = "published", uuid.NullUUID{}, novel.Details{Author: "H", Genres: []string{}}
		}},
		"free, then created and rejected": {
			[]events.Event{barred, events.NovelUnbarred{}, created, events.NovelRejected{}},
			func(r *titleLookup) {
				r.State, r.Details = "rejected", novel.Details{Author: "A", Synopsis: "S", Genres: []string{"g"}}
			},
		},
	} {
		// Whether the events come in one batch, one by one, or in batches that overlap.
		n := len(c.history)
		for delivery, batches := range map[string][][2]int{
			"at once": {{0, n}}, "one by one": oneByOne(n), "twice": {{0, n}, {0, n}},
			"overlapping":         append(oneByOne(n), [2]int{0, n}),
			"first one, then all": {{0, 1}, {0, n}},
		} {
			t.Run(name+" "+delivery, func(t *testing.T) {
				t.Parallel()
				pool := newPool(t)
				id := uuid.UUID{7}
				for _, b := range batches {
					applyBatch(t, pool, projections.Titles{}, history(events.NovelStream, id, b[0]+1, c.history[b[0]:b[1]]...))
				}
				want := base
				want.NovelID, want.Version = id, n
				c.then(&want)
				if diff := cmp.Diff(want, readTitle(t, pool, id)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func oneByOne(n int) [][2]int {
	var batches [][2]int
	for i := range n {
		batches = append(batches, [2]int{i, i + 1})
	}
	return batches
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
