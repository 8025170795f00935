package e2e_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/testdb"
)

// TestFoldOfWhatStaffDo: the read models that commands read equal a replay and the naive fold after every kind of thing
// that staff do about titles and names.
func TestFoldOfWhatStaffDo(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	pool, err := pgxpool.New(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &staff.Staff{Pool: pool, Actor: "staff:test", Now: time.Now}
	fields := novel.Fields{Author: new("A"), Genres: new([]string{"a", "b"}), Language: new("ja")}
	made, err := s.CreateIntegration(t.Context(), "One",
		principal.Change{Capabilities: map[principal.Capability]bool{principal.Posts: true}})
	if err != nil {
		t.Fatal(err)
	}
	reject := func(title string) error { _, err := s.RejectNovel(t.Context(), title, "no"); return err }
	approve := func(title string) error { _, err := s.ApproveNovel(t.Context(), title, "yes"); return err }
	publish := func(title string) error {
		_, err := s.PublishNovel(t.Context(), title, fields, "ours")
		return err
	}
	for _, do := range []func() error{
		func() error { return reject("Barred") },
		func() error { return reject("Free") },
		func() error { return approve("FREE") },
		func() error { return reject("Straße") },
		func() error { return approve("STRASSE") },
		func() error { return publish("strasse") },
		func() error { return publish("Host's") },
		func() error {
			found, err := s.Novel(t.Context(), "host's")
			if err == nil {
				_, err = s.EditNovel(t.Context(), found.NovelID, novel.Fields{Genres: new([]string{}), Synopsis: new("S")}, "why")
			}
			return err
		},
		func() error {
			_, err := s.ChangeIntegration(t.Context(), made.ID, principal.Change{Name: new("Two")})
			return err
		},
		func() error { _, err := s.CreateIntegration(t.Context(), "ONE", principal.Change{}); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	recorded := settledLog(t, databaseURL)
	tables := []string{"title_lookup", "integrations"}
	wantSame(t, "a replay through the projections",
		contents(t, replayed(t, recorded), tables, `SELECT t::text FROM %s AS t`),
		contents(t, databaseURL, tables, `SELECT t::text FROM %s AS t`))
	wantReference(t, databaseURL, recorded, tables...)
	if rows := value[int](t, databaseURL, `SELECT count(*) FROM title_lookup`); rows != 4 {
		t.Errorf("%d titles", rows)
	}
}
