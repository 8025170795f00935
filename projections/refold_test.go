package projections_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
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
		before map[int]string // as older tables have folded them
		after  map[int]string
	}{
		"nothing changes": {
			titles: []string{"One", "Two"}, after: map[int]string{1: "one", 2: "two"},
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
			builtWith(t, pool, "another table", c.before)
			for _, again := range []bool{false, true} {
				merges := testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
				if len(merges) > 0 {
					t.Errorf("merges, again %t: %v", again, merges)
				}
				if diff := cmp.Diff(c.after, keys(t, pool)); diff != "" {
					t.Errorf("keys, again %t (-want +got):\n%s", again, diff)
				}
			}
		})
	}
}

// TestRefoldPrefersNovels: a title that is free hides no novel, though it came first; one that is barred does.
func TestRefoldPrefersNovels(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first []events.Event
		kept  int
	}{
		"free":   {[]events.Event{events.NovelBarred{Title: "Straße", Slug: "kept"}, events.NovelUnbarred{}}, 2},
		"barred": {[]events.Event{events.NovelBarred{Title: "Straße", Slug: "kept"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			if err := projections.Append(t.Context(), pool,
				history(events.NovelStream, novelNumber(1), 1, c.first...)...); err != nil {
				t.Fatal(err)
			}
			builtWith(t, pool, "another table", map[int]string{1: "straße"})
			if err := projections.Append(t.Context(), pool, history(events.NovelStream, novelNumber(2), 1,
				events.NovelCreated{Title: "STRASSE", Slug: "later", Author: "A", State: "published"})...); err != nil {
				t.Fatal(err)
			}
			merges := testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
			want := []projections.Merge{{FoldedTitle: "strasse", Kept: novelNumber(c.kept), Hidden: novelNumber(3 - c.kept)}}
			if diff := cmp.Diff(want, merges); diff != "" {
				t.Errorf("merges (-want +got):\n%s", diff)
			}
			if got := keys(t, pool); got[c.kept] != "strasse" || got[3-c.kept] != hiddenKey(3-c.kept) {
				t.Errorf("keys %v", got)
			}
		})
	}
}

// TestRefoldMerges: the novel that came first keeps the title; the other one is reported and no longer found.
func TestRefoldMerges(t *testing.T) {
	t.Parallel()
	pool := catalogue(t, "Straße", "unrelated", "third")
	// Under older tables these were two titles.
	testdb.Exec(t, pool, `UPDATE title_lookup SET folded_title = 'straße' WHERE novel_id = $1`, novelNumber(1))
	if err := projections.Append(t.Context(), pool, history(events.NovelStream, novelNumber(4), 1,
		events.NovelCreated{Title: "STRASSE", Slug: "later", Author: "A", State: "published"})...); err != nil {
		t.Fatal(err)
	}
	builtWith(t, pool, "another table", nil)

	want := []projections.Merge{{FoldedTitle: "strasse", Kept: novelNumber(1), Hidden: novelNumber(4)}}
	merges := testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
	if diff := cmp.Diff(want, merges); diff != "" {
		t.Errorf("merges (-want +got):\n%s", diff)
	}
	keysWanted := map[int]string{1: "strasse", 2: "unrelated", 3: "third", 4: hiddenKey(4)}
	if diff := cmp.Diff(keysWanted, keys(t, pool)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if title.Fold(hiddenKey(4)) == "strasse" {
		t.Error("the hidden novel can be found")
	}

	t.Run("the next table merges them still", func(t *testing.T) {
		builtWith(t, pool, "yet another table", nil)
		merges := testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
		if diff := cmp.Diff(want, merges); diff != "" {
			t.Errorf("merges (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(keysWanted, keys(t, pool)); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
	t.Run("the next table tells them apart again", func(t *testing.T) {
		builtWith(t, pool, "yet another table", map[int]string{3: hiddenKey(3)})
		testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
		if got := keys(t, pool)[3]; got != "third" {
			t.Errorf("found as %q", got)
		}
	})
}

func TestRefoldOnlyWhenTheTableDiffers(t *testing.T) {
	t.Parallel()
	pool := catalogue(t, "One")
	builtWith(t, pool, title.TableHash(), map[int]string{1: "left alone"})
	testdb.Must(projections.RefoldTitles(t.Context(), pool))(t)
	if got := keys(t, pool)[1]; got != "left alone" {
		t.Errorf("refolded to %q", got)
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
	if diff := cmp.Diff(map[int]string{1: "one", 2: "two", 3: "three"}, keys(t, pool)); diff != "" {
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
	if diff := cmp.Diff(map[int]string{1: "1", 2: "2"}, keys(t, pool)); diff != "" {
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folded names (-want +got):\n%s", diff)
	}
}
