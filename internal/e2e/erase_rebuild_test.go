package e2e_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestEraseBesideAnUnfinishedRebuild: what a rebuild that was interrupted has built keeps what an erased author wrote.
// The command says so, and with which commands that goes.
func TestEraseBesideAnUnfinishedRebuild(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	p := s.NewPartner(t)
	comment := Comment(Unique("Erased")).With(Fields{
		"uuid": plantedUUID, "username": plantedName, "content": plantedWords,
	})
	p.Import(t, Key(), comment).WantPost(t, 201)
	testdb.Eventually(t, "the author is in authors", func() bool {
		return slices.Contains(testdb.Holding(t, s.DatabaseURL, plantedName), "public.authors.display_name")
	})
	interruptRebuild(t, s.DatabaseURL)
	holds := func() bool {
		return slices.Contains(testdb.Holding(t, s.DatabaseURL, plantedName), "authors_2.authors.display_name")
	}
	if !holds() {
		t.Fatal("the interrupted rebuild has left nothing")
	}

	out := s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked")
	if out.Code != 0 || strings.Count(out.Stderr, "\n") != 1 ||
		!strings.Contains(out.Stderr, "novelgate projection rebuild authors") ||
		!strings.Contains(out.Stderr, "novelgate projection discard authors") {
		t.Errorf("beside an unfinished rebuild: %+v", out)
	}
	if !holds() {
		t.Error("the warning is wrong: nothing is kept")
	}
	if out := s.CLI(t, "projection", "rebuild", "authors"); out.Code != 0 {
		t.Errorf("go on with the rebuild: %+v", out)
	}
	testdb.Eventually(t, "nothing is kept any more",
		func() bool { return len(testdb.Holding(t, s.DatabaseURL, plantedName)) == 0 })
	if out := s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "again"); out.Code != 0 || out.Stderr != "" {
		t.Errorf("without an unfinished rebuild: %+v", out)
	}
}

// interruptRebuild begins to rebuild authors and ends once it has written rows.
func interruptRebuild(t *testing.T, databaseURL string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	_, err = rebuild.Run(ctx, rebuild.Config{
		Pool: pool, Projection: projections.Authors{}, Logger: slog.New(slog.DiscardHandler),
		Progress: func(at rebuild.Progress) {
			if at.Done > 0 {
				interrupt()
			}
		},
	})
	if err == nil {
		t.Fatal("the rebuild was not interrupted")
	}
}
