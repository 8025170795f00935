package eventlog_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
	"novelgate/internal/testdb"
)

const (
	restrictViolation     = "23001"
	insufficientPrivilege = "42501"
	uniqueViolation       = "23505"
	checkViolation        = "23514"
)

// TestLogIsAppendOnly: changes are refused even if no row matches, and for every session.
func TestLogIsAppendOnly(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	log.append(t, approval(1, 1), approval(1, 2))
	digest := func() (digest string) {
		err := log.pool.QueryRow(t.Context(),
			`SELECT md5(string_agg(e::text, ',' ORDER BY log_index)) FROM events e`).Scan(&digest)
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	before := digest()

	for _, role := range []string{"origin", "replica", "local"} {
		for name, statement := range map[string]string{
			"update":           `UPDATE events SET data = '{}'`,
			"update of no row": `UPDATE events SET data = '{}' WHERE false`,
			"update to itself": `UPDATE events SET event_id = event_id`,
			"delete":           `DELETE FROM events`,
			"delete of no row": `DELETE FROM events WHERE stream_version = 99`,
			"delete inside":    `WITH gone AS (DELETE FROM events RETURNING 1) SELECT count(*) FROM gone`,
			"truncate":         `TRUNCATE events`,
			"truncate cascade": `TRUNCATE events CASCADE`,
			"merge":            `MERGE INTO events e USING (SELECT 1) s ON e.stream_version = 99 WHEN MATCHED THEN DELETE`,
			"upsert": `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
				SELECT log_index + 100, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, 'test',
				    batch_id
				    FROM events
				ON CONFLICT (stream_id, stream_version) DO UPDATE SET data = '{"edited":true}'`,
		} {
			t.Run(role+" "+name, func(t *testing.T) {
				tx := testdb.Begin(t, log.pool)
				if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = `+role); err != nil {
					if code(err) == insufficientPrivilege {
						return // this role may not even try
					}
					t.Fatal(err)
				}
				if _, err := tx.Exec(t.Context(), statement); code(err) != restrictViolation {
					t.Errorf("not refused: %v", err)
				}
			})
		}
	}
	if after := digest(); after != before {
		t.Error("the log has changed")
	}
}

// TestLogRefusesACommentWithAnotherID checks the constraint that keeps the keys of comments unique.
func TestLogRefusesACommentWithAnotherID(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	integration := uuid.UUID{9}
	const insert = `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, batch_id)
		VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', $1, 1, 'key', $2, 'posts', 'post.imported.v1', '{}', gen_random_uuid())`
	for name, c := range map[string]struct {
		stream      uuid.UUID
		integration *uuid.UUID
	}{
		"of another key":         {events.PostID(integration, "other"), &integration},
		"of another integration": {events.PostID(uuid.UUID{8}, "key"), &integration},
		"without an integration": {events.PostID(integration, "key"), nil},
	} {
		if _, err := log.pool.Exec(t.Context(), insert, c.stream, c.integration); code(err) != checkViolation {
			t.Errorf("%s: not refused: %v", name, err)
		}
	}
	for i, want := range []string{"", uniqueViolation} {
		if _, err := log.pool.Exec(t.Context(), insert, events.PostID(integration, "key"), integration); code(err) != want {
			t.Errorf("delivery %d: %v", i+1, err)
		}
	}
}

func code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}
