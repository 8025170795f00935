package staff_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestGuardOpensForErasureOnly: whoever sets the marker by hand can still change nothing else.
func TestGuardOpensForErasureOnly(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "k", 2)...)
	l.caughtUp(t)
	l.stopSealing()
	marker := l.name.IntegrationID.String() + "/" + l.name.ExternalUUID
	const refused = "23001"
	const erase = `UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal)`
	try := func(role, marker, statement string) string {
		t.Helper()
		tx, err := l.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		if _, err := tx.Exec(t.Context(),
			`SELECT set_config('session_replication_role', $1, true), set_config('novelgate.erasure', $2, true)`, role, marker); err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), statement)
		var coded *pgconn.PgError
		if err != nil && !errors.As(err, &coded) {
			t.Fatal(err)
		}
		if coded != nil {
			return coded.Code
		}
		return ""
	}
	for _, role := range []string{"origin", "replica", "local"} {
		for statement, want := range map[string]string{
			erase + ` WHERE event_id = 'k-0'`:                                                                                          "",
			erase + `, data = data WHERE event_id = 'k-0'`:                                                                             "",
			`UPDATE events SET personal = NULL, salt = NULL WHERE event_id = 'k-0'`:                                                    refused,
			`UPDATE events SET personal = NULL, salt = NULL, personal_digest = NULL WHERE event_id = 'k-0'`:                            refused,
			`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(NULL, personal) WHERE event_id = 'k-0'`: refused,
			`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, '{}') WHERE event_id = 'k-0'`:     refused,
			`UPDATE events SET personal_digest = personal_digest(salt, personal) WHERE event_id = 'k-0'`:                               refused,
			`UPDATE events SET personal = NULL WHERE event_id = 'k-0'`:                                                                 refused,
			`UPDATE events SET salt = NULL WHERE event_id = 'k-0'`:                                                                     refused,
			`UPDATE events SET personal = '{}', salt = NULL WHERE event_id = 'k-0'`:                                                    refused,
			// not all are the author's
			erase: refused,
			erase + `, data = '{}' WHERE event_id = 'k-0'`:                     refused,
			erase + `, actor = 'x' WHERE event_id = 'k-0'`:                     refused,
			erase + `, fingerprint = gen_random_uuid() WHERE event_id = 'k-0'`: refused,
			erase + `, integration_id = NULL WHERE event_id = 'k-0'`:           refused,
			erase + `, event_id = 'other' WHERE event_id = 'k-0'`:              refused,
			erase + `, event_type = 'x.y.v1' WHERE event_id = 'k-0'`:           refused,
			erase + `, stream_version = 9 WHERE event_id = 'k-0'`:              refused,
			erase + `, position = 9 WHERE event_id = 'k-0'`:                    refused,
			erase + `, recorded_at = now() WHERE event_id = 'k-0'`:             refused,
			`DELETE FROM events WHERE event_id = 'k-0'`:                        refused,
			`TRUNCATE events`: refused,
			`INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
				SELECT position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, 'test', batch_id
				    FROM events
				ON CONFLICT (stream_id, stream_version) DO UPDATE SET data = '{"edited":true}'`: refused,
		} {
			if got := try(role, marker, statement); got != want {
				t.Errorf("%s, with marker: %s\ngot %q, want %q", role, statement, got, want)
			}
			if got := try(role, "", statement); got != refused {
				t.Errorf("%s, without: %s\ngot %q", role, statement, got)
			}
			if got := try(role, marker+"x", statement); got != refused {
				t.Errorf("%s, of another author: %s\ngot %q", role, statement, got)
			}
		}
	}
}
