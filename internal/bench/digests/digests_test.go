package digests_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/catalogue"
	"novelgate/internal/bench/digests"
	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// tell lets a tiny story happen to a service of its own, and returns its database.
func tell(t *testing.T) *pgxpool.Pool {
	t.Helper()
	s := blackbox.Start(t, testdb.New(t))
	partner := s.NewPartner(t)
	var novels []catalogue.Novel
	for i := range 30 {
		novels = append(novels, catalogue.Novel{
			Key: fmt.Sprint("book-", i), Title: fmt.Sprintf("Title Ñº %d", i), Author: "Somebody", Language: "ja",
		})
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	story := &digests.Story{
		Client: &catalogue.Client{
			URL: s.URL, APIKey: partner.APIKey, Connections: 4, HTTP: &http.Client{Transport: transport, Timeout: time.Minute},
			Now: time.Now,
		},
		Integration: partner.Name, IntegrationID: uuid.MustParse(partner.IntegrationID), Novels: novels, Comments: 500,
		Novelgate: func(_ context.Context, args ...string) error {
			if out := s.CLI(t, args...); out.Code != 0 { //nolint:contextcheck // it takes that of the test
				return fmt.Errorf("exit code %d: %s", out.Code, out.Stderr)
			}
			return nil
		},
		Print: func(text string) error { t.Log(text); return nil },
	}
	if err := story.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func check(t *testing.T, pool *pgxpool.Pool) (printed string, err error) {
	t.Helper()
	c := &digests.Check{Pool: pool, Now: time.Now, Print: func(text string) error { printed += text; return nil }}
	err = c.Run(t.Context())
	return printed, err
}

// Everything agrees about a true story; a row that is tampered with is shown, and the rebuild has repaired it.
func TestDigestsOfATinyCatalogue(t *testing.T) {
	t.Parallel()
	pool := tell(t)
	printed, err := check(t, pool)
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	t.Log(printed)
	for _, p := range append(projections.All(), projections.Inline()...) {
		for _, table := range p.Tables() {
			if !strings.Contains(printed, table+" ") {
				t.Errorf("nothing is said about %s", table)
			}
		}
	}
	_, err = pool.Exec(t.Context(), `UPDATE posts SET depth = 99 WHERE post_id = (SELECT post_id FROM posts WHERE depth = 1 LIMIT 1);
		DELETE FROM daily_authors WHERE author_id = (SELECT author_id FROM daily_authors LIMIT 1);
		UPDATE title_lookup SET state = 'approved' WHERE state = 'free'`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = check(t, pool)
	if !errors.Is(err, digests.ErrDiffer) {
		t.Fatalf("tampered tables: %v", err)
	}
	for _, want := range []string{
		"posts, incremental", `"depth":99`, "daily_authors, incremental", "title_lookup, incremental",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not show %s: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "rebuilt") {
		t.Errorf("a rebuild differs: %v", err)
	}
	if _, err := check(t, pool); err != nil {
		t.Errorf("after the rebuild: %v", err)
	}
}

// Digests of a log that grows would be of different logs.
func TestGrownLog(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, testdb.New(t))
	s.NewPartner(t)
	pool, err := pgxpool.New(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	first := true
	c := &digests.Check{Pool: pool, Now: time.Now, Print: func(string) error {
		if first {
			first = false
			s.NewPartner(t)
		}
		return nil
	}}
	if err := c.Run(t.Context()); !errors.Is(err, digests.ErrGrown) {
		t.Errorf("got %v", err)
	}
}
