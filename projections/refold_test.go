package projections_test

import (
	"cmp"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/projections"
)

// catalogue is a database with these titles, one novel each in this order, numbered from 1.
func catalogue(t *testing.T, titles ...string) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t)
	for i, spelled := range titles {
		slug := string(rune('a' + i))
		err := projections.Append(t.Context(), pool, history(events.NovelStream, novelNumber(i+1), 1,
			events.NovelCreated{Title: spelled, Slug: slug, Author: "A", State: "published"})...)
		if err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

func novelNumber(n int) uuid.UUID { return uuid.UUID{15: byte(n)} }

// builtWith makes the look-up what a program with other Unicode tables would have built.
func builtWith(t *testing.T, pool *pgxpool.Pool, hash string, folded map[int]string) {
	t.Helper()
	tx := testdb.Begin(t, pool)
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, prefix := range []string{"aside ", ""} {
		for n, key := range folded {
			testdb.Exec(t, tx, `UPDATE title_lookup SET folded_title = $2 WHERE novel_id = $1`, novelNumber(n),
				prefix+key)
		}
	}
	testdb.Exec(t, tx, `INSERT INTO settings (name, value) VALUES ('fold_table', $1) ON CONFLICT (name) DO UPDATE SET value = $1`, hash)
	testdb.NoError(t, tx.Commit(t.Context()))
}

// keys returns the folded titles by number of novel.
func keys(t *testing.T, pool *pgxpool.Pool) map[int]string {
	t.Helper()
	rows := testdb.Must(pool.Query(t.Context(), `SELECT novel_id, folded_title FROM title_lookup`))(t)
	found := map[int]string{}
	var id uuid.UUID
	var key string
	if _, err := pgx.ForEachRow(rows, []any{&id, &key}, func() error {
		found[int(id[15])] = key
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func hiddenKey(n int) string { return " hidden " + novelNumber(n).String() }

func TestRefold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		titles []string
		hash   string         // of the tables that the look-up was built with
		before map[int]string // as older tables have folded them
		after  map[int]string
	}{
		"nothing changes": {
			titles: []string{"One", "Two"}, after: map[int]string{1: "one", 2: "two"},
		},
		"built with these tables": {
			titles: []string{"One"}, hash: title.TableHash(), before: map[int]string{1: "left alone"},
			after: map[int]string{1: "left alone"},
		},
		"one changes": {
			titles: []string{"One", "Straße"}, before: map[int]string{2: "straße"},
			after: map[int]string{1: "one", 2: "strasse"},
		},
		"two swap": {
			titles: []string{"One", "Two"}, before: map[int]string{1: "two", 2: "one"},
			after: map[int]string{1: "one", 2: "two"},
		},
		"a ring": {
			titles: []string{"One", "Two", "Three"}, before: map[int]string{1: "two", 2: "three", 3: "one"},
			after: map[int]string{1: "one", 2: "two", 3: "three"},
		},
		"one takes what another gives up": {
			titles: []string{"Straße", "Two", "Ὀ"}, before: map[int]string{1: "straße", 2: "strasse", 3: "ὀ"},
			after: map[int]string{1: "strasse", 2: "two", 3: "ὀ"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := catalogue(t, c.titles...)
			builtWith(t, pool, cmp.Or(c.hash, "another table"), c.before)
			for _, again := range []bool{false, true} {
				merges := testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
				if len(merges) > 0 {
					t.Errorf("merges, again %t: %v", again, merges)
				}
				if diff := gocmp.Diff(c.after, keys(t, pool)); diff != "" {
					t.Errorf("keys, again %t (-want +got):\n%s", again, diff)
				}
			}
		})
	}
}

// TestRefoldMerges: of two titles that were two under older tables, the novel that came first keeps the title, and the
// other one is reported and no longer found. A title that is free hides no novel, though it came first; one that is
// barred does.
func TestRefoldMerges(t *testing.T) {
	t.Parallel()
	barred := events.NovelBarred{Title: "Straße", Slug: "kept"}
	for name, c := range map[string]struct {
		first []events.Event
		kept  int
	}{
		"a novel": {[]events.Event{events.NovelCreated{Title: "Straße", Slug: "a", Author: "A", State: "published"}}, 1},
		"free":    {[]events.Event{barred, events.NovelUnbarred{}}, 2},
		"barred":  {[]events.Event{barred}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			for n, stream := range [][]events.Event{c.first, {
				events.NovelCreated{Title: "STRASSE", Slug: "later", Author: "A", State: "published"},
			}} {
				err := projections.Append(t.Context(), pool, history(events.NovelStream, novelNumber(n+1), 1, stream...)...)
				if err != nil {
					t.Fatal(err)
				}
				builtWith(t, pool, "another table", map[int]string{1: "straße"})
			}
			hidden := 3 - c.kept
			want := []projections.Merge{{FoldedTitle: "strasse", Kept: novelNumber(c.kept), Hidden: novelNumber(hidden)}}
			for _, table := range []string{"another table", "the next one, which merges them still"} {
				builtWith(t, pool, table, nil)
				merges := testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
				if diff := gocmp.Diff(want, merges); diff != "" {
					t.Errorf("merges (-want +got):\n%s", diff)
				}
				keysWanted := map[int]string{c.kept: "strasse", hidden: hiddenKey(hidden)}
				if diff := gocmp.Diff(keysWanted, keys(t, pool)); diff != "" {
					t.Errorf("keys (-want +got):\n%s", diff)
				}
			}
			if title.Fold(hiddenKey(hidden)) == "strasse" {
				t.Error("the hidden novel can be found")
			}
		})
	}
}

// TestRefoldTellsApart: a title that older tables have merged into another one is found again.
func TestRefoldTellsApart(t *testing.T) {
	t.Parallel()
	pool := catalogue(t, "One", "third")
	builtWith(t, pool, "another table", map[int]string{2: hiddenKey(2)})
	testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
	if got := keys(t, pool)[2]; got != "third" {
		t.Errorf("found as %q", got)
	}
}

func TestRefoldByReplicasAtOnce(t *testing.T) {
	t.Parallel()
	pool := catalogue(t, "One", "Two", "Three")
	builtWith(t, pool, "another table", map[int]string{1: "two", 2: "one", 3: "3"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := projections.RefoldTitles(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := gocmp.Diff(map[int]string{1: "one", 2: "two", 3: "three"}, keys(t, pool)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if hash := testdb.Value[string](t, pool, `SELECT value FROM settings WHERE name = 'fold_table'`); hash != title.TableHash() {
		t.Errorf("hash %q", hash)
	}
}

func TestRefoldFailsAsAWhole(t *testing.T) {
	t.Parallel()
	pool := catalogue(t, "One", "Two")
	builtWith(t, pool, "another table", map[int]string{1: "1", 2: "2"})
	testdb.Exec(t, pool, `ALTER TABLE title_lookup ADD CHECK (folded_title <> 'two') NOT VALID`)
	if _, err := projections.RefoldTitles(t.Context(), pool); err == nil {
		t.Error("no error")
	}
	if diff := gocmp.Diff(map[int]string{1: "1", 2: "2"}, keys(t, pool)); diff != "" {
		t.Errorf("half of it was done (-want +got):\n%s", diff)
	}
}

// TestRefoldNames: integrations are found by their names again; of two whose names have become equal, the older one is.
func TestRefoldNames(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for n, name := range []string{"Éditions Rivière", "Straße", "STRASSEN"} {
		applyBatch(t, pool, projections.Integrations{}, history(events.IntegrationStream, uuid.UUID{byte(n)}, 1,
			events.IntegrationRegistered{Name: name, RegisteredAt: time.Unix(int64(n), 0)}))
	}
	builtWith(t, pool, "another table", nil)
	testdb.Exec(t, pool, `UPDATE integrations SET folded_name = 'Éditions rivière' WHERE folded_name = 'éditions rivière'`)
	testdb.Exec(t, pool, `UPDATE integrations SET folded_name = 'straße' WHERE folded_name = 'strasse'`)
	testdb.Exec(t, pool, `UPDATE integrations SET name = 'STRASSE', folded_name = 'strasse' WHERE name = 'STRASSEN'`)
	testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
	rows, _ := pool.Query(t.Context(), `SELECT folded_name FROM integrations ORDER BY registered_at`)
	got := testdb.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	want := []string{"éditions rivière", "strasse", " hidden " + uuid.UUID{2}.String()}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("folded names (-want +got):\n%s", diff)
	}
}
