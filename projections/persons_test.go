package projections_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/projections"
)

type personKeyRow struct {
	ID                   uuid.UUID
	Hash                 []byte
	Prefix               string
	PersonID             uuid.UUID
	Role, Name           string
	IssuedAt             time.Time
	ExpiresAt, RevokedAt *time.Time
}

func readPersonKeys(t testing.TB, pool *pgxpool.Pool) []personKeyRow {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT key_id, key_hash, prefix, person_id, role, name, issued_at AT TIME ZONE 'UTC',
		expires_at AT TIME ZONE 'UTC', revoked_at AT TIME ZONE 'UTC' FROM person_keys ORDER BY key_id`)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[personKeyRow])
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestPersons(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)
	id := events.PersonID("staff", "Ada")
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	stream := []events.Event{
		events.PersonKeyIssued{
			Name: "Ada", Role: "staff", KeyID: uuid.UUID{5}, Prefix: "ngs_AbC1", SHA256: one, IssuedAt: noon,
		},
		events.PersonKeyIssued{
			Name: "ADA", Role: "staff", KeyID: uuid.UUID{6}, Prefix: "ngs_XyZ9", SHA256: two, IssuedAt: noon,
			ExpiresAt: new(noon.Add(time.Hour)),
		},
		events.PersonKeyRevoked{KeyID: uuid.UUID{5}, RevokedAt: noon.Add(time.Minute)},
	}
	want := []personKeyRow{
		{
			ID: uuid.UUID{5}, Hash: one, Prefix: "ngs_AbC1", PersonID: id, Role: "staff", Name: "Ada", IssuedAt: noon,
			RevokedAt: new(noon.Add(time.Minute)),
		},
		{
			ID: uuid.UUID{6}, Hash: two, Prefix: "ngs_XyZ9", PersonID: id, Role: "staff", Name: "ADA", IssuedAt: noon,
			ExpiresAt: new(noon.Add(time.Hour)),
		},
	}
	pool := newPool(t)
	for _, from := range []int{0, 0, 1, 2} { // all; then again all, and parts of it
		applyBatch(t, pool, projections.Persons{}, history(events.PersonStream, id, from+1, stream[from:]...))
		if diff := cmp.Diff(want, readPersonKeys(t, pool)); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", from, diff)
		}
	}
}

// TestPersonsLeaveOtherStreamsAlone: a partner's keys are no business of theirs.
func TestPersonsLeaveOtherStreamsAlone(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	applyBatch(t, pool, projections.Persons{}, history(events.IntegrationStream, uuid.UUID{1}, 1,
		events.KeyIssued{KeyID: uuid.UUID{5}, Prefix: "ngp_AbC1", SHA256: bytes.Repeat([]byte{1}, 32), IssuedAt: time.Now()}))
	if keys := readPersonKeys(t, pool); len(keys) > 0 {
		t.Errorf("keys %+v", keys)
	}
}
