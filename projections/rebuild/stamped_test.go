package rebuild_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// stamped is a projection whose rows have the generation that wrote them. A comment adds a row; an approval with the
// same identifier marks it.
type stamped struct {
	name       string
	generation int
	poison     string
}

func (s stamped) Name() string      { return s.name }
func (s stamped) Generation() int   { return s.generation }
func (s stamped) Streams() []string { return nil }
func (s stamped) Tables() []string  { return []string{s.name} }

func (s stamped) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	for i := range batch {
		if s.poison != "" && batch[i].ID == s.poison {
			return fmt.Errorf("%s does not agree with me", s.poison)
		}
		switch batch[i].Event.(type) {
		case events.PostImported:
			_, err := tx.Exec(ctx,
				fmt.Sprintf(`INSERT INTO %s (post_id, generation) VALUES ($1, $2) ON CONFLICT (post_id) DO NOTHING`, s.name),
				pgtype.UUID{Bytes: batch[i].StreamID, Valid: true}, s.generation)
			if err != nil {
				return err
			}
		case events.NovelApproved:
			_, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE %s SET marks = $2 WHERE post_id = $1`, s.name),
				pgtype.UUID{Bytes: batch[i].StreamID, Valid: true}, batch[i].StreamVersion)
			if err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// newStamped creates the table of a stamped projection, with all kinds of dependent objects.
func newStamped(t testing.TB, pool *pgxpool.Pool, name string) stamped {
	t.Helper()
	for _, statement := range []string{
		`CREATE TABLE %[1]s (
			post_id uuid NOT NULL, gone integer, generation integer NOT NULL CHECK (generation > 0),
			    marks integer NOT NULL DEFAULT 0,
			n bigint GENERATED ALWAYS AS IDENTITY, double integer GENERATED ALWAYS AS (marks * 2) STORED,
			CONSTRAINT %[1]s_key PRIMARY KEY (post_id) INCLUDE (marks),
			    CONSTRAINT %[1]s_n UNIQUE (n) DEFERRABLE INITIALLY DEFERRED
		) WITH (fillfactor = 81, autovacuum_vacuum_scale_factor = 0.5)`,
		`ALTER TABLE %[1]s DROP COLUMN gone`,
		`CREATE INDEX "%[1]s by Mark" ON %[1]s (marks DESC, abs(generation)) WITH (fillfactor = 77) WHERE marks > 0`,
		`COMMENT ON TABLE %[1]s IS 'Its ''comment''.'`,
		`COMMENT ON COLUMN %[1]s.marks IS 'How many.'`,
		`COMMENT ON INDEX "%[1]s by Mark" IS 'To find marks.'`,
		`COMMENT ON CONSTRAINT %[1]s_key ON %[1]s IS 'One each.'`,
		`GRANT INSERT ON %[1]s TO pg_monitor WITH GRANT OPTION`,
		`GRANT SELECT ON %[1]s TO PUBLIC`,
		`GRANT UPDATE (marks), SELECT (marks) ON %[1]s TO pg_monitor WITH GRANT OPTION`,
		`CREATE VIEW analytics."%[1]s" WITH (security_barrier = true) AS SELECT marks AS "Marks", post_id, generation FROM %[1]s WHERE generation > 0`,
		`COMMENT ON VIEW analytics."%[1]s" IS 'A view.'`,
		`COMMENT ON COLUMN analytics."%[1]s"."Marks" IS 'A column of a view.'`,
		`GRANT SELECT ON analytics."%[1]s" TO pg_monitor`,
		`CREATE VIEW analytics."%[1]s of all" AS SELECT v.generation, count(*) AS posts, count(t.n) AS rows
			FROM analytics."%[1]s" AS v JOIN %[1]s AS t USING (post_id) GROUP BY 1`,
	} {
		testdb.Exec(t, pool, fmt.Sprintf(statement, name))
	}
	return stamped{name: name, generation: 1}
}

// approval of a novel under the identifier of a comment.
func approval(post events.Recorded, version int) events.Recorded {
	return events.Recorded{
		StreamType: events.NovelStream, StreamID: post.StreamID, StreamVersion: version,
		ID: fmt.Sprintf("%s v%d", post.ID, version), Source: "tests",
		Event: events.NovelApproved{Reason: "why not"},
	}
}
