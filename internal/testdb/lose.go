package testdb

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Lose turns the log into one that lacks the events for which an SQL condition holds, as a failover to a standby does
// that lagged behind: they are gone, and the log has another identity.
func Lose(t testing.TB, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, condition string,
) {
	t.Helper()
	const alter = `ALTER TABLE events DISABLE TRIGGER USER; ALTER TABLE log_identity DISABLE TRIGGER USER; `
	tag, err := db.Exec(context.Background(),
		alter+`UPDATE log_identity SET id = gen_random_uuid(); DELETE FROM events WHERE `+condition)
	if err != nil {
		t.Fatalf("lose events: %v", err)
	}
	if tag.RowsAffected() == 0 {
		t.Fatalf("there are no events to lose: %s", condition)
	}
}
