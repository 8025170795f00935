package commands_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
)

// TestNearTitlesProbeIndexes: among 10,000 titles no more rows are read than the limits say, whether the planner has
// statistics or not, and a slip in the first letter is found among titles that share their end.
func TestNearTitlesProbeIndexes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := s.partner(t, "Partner", principal.Change{})
	const growSQL = `INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, stream_version, details)
		SELECT 'the ' || md5(n::text) || ' of the princess', gen_random_uuid(), 'slug-' || n, 'Title ' || n, 'approved', 1, '{}' FROM generate_series(1, 9999) n`
	if _, err := s.pool.Exec(t.Context(), growSQL); err != nil {
		t.Fatal(err)
	}
	p.upsert(t, "k", "Clock of the Princess")
	sql, err := os.ReadFile("near.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, analyse := range []bool{false, true} {
		if analyse {
			if _, err := s.pool.Exec(t.Context(), `ANALYZE title_lookup`); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := s.pool.Query(t.Context(), `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) `+string(sql),
			[]string{"dlock of the princess", "of the princess", "the dlock of the princess"}, []string{"d", "o", "t"}, 25)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		t.Logf("statistics %t:\n%s", analyse, plan)
		if strings.Contains(plan, "Seq Scan") || strings.Count(plan, "Index Scan using title_lookup_pkey") != 1 ||
			strings.Count(plan, "Index Scan Backward using title_lookup_pkey") != 1 ||
			strings.Count(plan, "Index Scan using title_lookup_reversed") != 1 ||
			strings.Count(plan, "Index Scan Backward using title_lookup_reversed") != 1 {
			t.Errorf("statistics %t: not four probes of indexes:\n%s", analyse, plan)
		}
		if near, _ := p.resolve(t, "Dlock of the Princess")["nearTitles"].([]any); !slices.Contains(near,
			any("Clock of the Princess")) {
			t.Errorf("statistics %t: near titles %v", analyse, near)
		}
	}
}

// TestPartnersSeeMoves: a partner's very next request knows what staff have just done.
func TestPartnersSeeMoves(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, other := s.partner(t, "Partner", principal.Change{}), s.partner(t, "Other", principal.Change{})
	n := 0
	check := func(rule, upsert, comment string) {
		t.Helper()
		got := p.resolve(t, " MOBY dick")
		if unknown := rule == "create"; got["rule"] != rule || (got["novelId"] == nil) != unknown ||
			(got["slug"] == nil) != unknown || (got["url"] == nil) != unknown {
			t.Errorf("rule %v, want %s: %v", got["rule"], rule, got)
		}
		n++
		if comment != "" {
			_, got := p.send(t, http.MethodPost, "/api/integrations/posts", fmt.Sprint("c", n),
				`{"uuid":"u","username":"n","content":"c","novel":"Moby Dick"}`)
			if code, _ := got["code"].(string); code != strings.TrimPrefix(comment, "201") {
				t.Errorf("comment: %v, want %s", got, comment)
			}
		}
		status, got := p.send(t, http.MethodPost, "/api/integrations/novels", fmt.Sprint("n", n), `{"novel":"moby  DICK"}`)
		outcome := got["code"]
		for _, name := range []string{"created", "updated", "canonical"} {
			if got[name] == true {
				outcome = name
			}
		}
		if outcome != upsert {
			t.Errorf("upsert: %d %v, want %s", status, got, upsert)
		}
	}
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(s.staff.RejectNovel(t.Context(), "Moby Dick", "no whales"))
	check("rejected", "novel_rejected", "novel_not_found")
	do(s.staff.ApproveNovel(t.Context(), "Moby Dick", "whales are fine"))
	if near := other.resolve(t, "Moby Dicky")["nearTitles"].([]any); len(near) != 0 {
		t.Errorf("a free title is near: %v", near)
	}
	if near := p.resolve(t, "Moby Dick")["nearTitles"].([]any); len(near) != 0 {
		t.Errorf("a free title is near itself: %v", near)
	}
	do(s.staff.RejectNovel(t.Context(), "Moby Dick", "no whales"))
	check("rejected", "novel_rejected", "novel_not_found")
	do(s.staff.ApproveNovel(t.Context(), "Moby Dick", "whales are fine"))
	check("create", "created", "")
	check("update", "updated", "201")
	do(s.staff.RejectNovel(t.Context(), "Moby Dick", "no"))
	check("rejected", "novel_rejected", "novel_not_found")
	do(s.staff.ApproveNovel(t.Context(), "Moby Dick", "yes"))
	check("update", "updated", "201")
	do(s.staff.PublishNovel(t.Context(), "Moby Dick", novel.Fields{}, "ours"))
	check("canonical", "canonical", "201")
	found, err := s.staff.Novel(t.Context(), "Moby Dick")
	if err != nil || found.Title != "moby DICK" || found.Slug != "moby-dick" {
		t.Errorf("%+v, %v: want the creator's spelling, and the slug that was kept", found, err)
	}
}
