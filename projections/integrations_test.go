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

type integrationRow struct {
	Name                            string
	Enabled, Novels, Posts          bool
	PostsPerMinute, NovelsPerMinute int
	NovelUpdatesPerMinute           *int
	Review                          bool
	Version                         int
	RegisteredAt                    time.Time
}

type keyRow struct {
	ID                   uuid.UUID
	Hash                 []byte
	Prefix               string
	IntegrationID        uuid.UUID
	IssuedAt             time.Time
	ExpiresAt, RevokedAt *time.Time
}

func readIntegration(t testing.TB, pool *pgxpool.Pool, id uuid.UUID) integrationRow {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT name, enabled, can_create_novels, can_post, posts_per_minute, novels_per_minute, novel_updates_per_minute, review,
		stream_version, registered_at FROM integrations WHERE integration_id = $1`, id)
	if err != nil {
		t.Fatal(err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[integrationRow])
	if err != nil {
		t.Fatal(err)
	}
	row.RegisteredAt = row.RegisteredAt.UTC()
	return row
}

func readKeys(t testing.TB, pool *pgxpool.Pool) []keyRow {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT key_id, key_hash, prefix, integration_id, issued_at AT TIME ZONE 'UTC',
		expires_at AT TIME ZONE 'UTC', revoked_at AT TIME ZONE 'UTC' FROM api_keys ORDER BY key_id`)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[keyRow])
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestIntegrations(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)
	id, hash := uuid.UUID{1}, bytes.Repeat([]byte{1}, 32)
	other := bytes.Repeat([]byte{2}, 32)
	stream := []events.Event{
		events.IntegrationRegistered{Name: "Partner", RegisteredAt: noon},
		events.CapabilityEnabled{Capability: "novels"},
		events.CapabilityEnabled{Capability: "posts"},
		events.RateLimitSet{Operation: "posts", PerMinute: 6000},
		events.RateLimitSet{Operation: "novels", PerMinute: 0, Updates: &events.UpdateLimit{PerMinute: new(10)}},
		events.ReviewModeSet{Review: true},
		events.KeyIssued{KeyID: uuid.UUID{5}, Prefix: "ngp_AbC1", SHA256: hash, IssuedAt: noon},
		events.KeyIssued{
			KeyID: uuid.UUID{6}, Prefix: "ngp_XyZ9", SHA256: other, IssuedAt: noon, ExpiresAt: new(noon.Add(time.Hour)),
		},
		events.CapabilityDisabled{Capability: "novels"},
		events.KeyRevoked{KeyID: uuid.UUID{5}, RevokedAt: noon.Add(time.Minute)},
		events.KeyExpirySet{KeyID: uuid.UUID{6}, ExpiresAt: noon.Add(2 * time.Minute)},
		events.IntegrationDisabled{},
		events.IntegrationEnabled{},
		events.ReviewModeSet{},
		events.IntegrationRenamed{Name: "Another"},
		events.RateLimitSet{Operation: "novels", PerMinute: 0},
	}
	pool := newPool(t)
	applyBatch(t, pool, projections.Integrations{}, history(events.IntegrationStream, id, 1, stream[0]))
	fresh := integrationRow{
		Name: "Partner", Enabled: true, PostsPerMinute: 60, NovelsPerMinute: 60, Version: 1, RegisteredAt: noon,
	}
	if diff := cmp.Diff(fresh, readIntegration(t, pool, id)); diff != "" {
		t.Errorf("fresh (-want +got):\n%s", diff)
	}

	want := integrationRow{
		Name: "Another", Enabled: true, Posts: true, PostsPerMinute: 6000, NovelUpdatesPerMinute: new(10),
		Version: len(stream), RegisteredAt: noon,
	}
	wantKeys := []keyRow{
		{
			ID: uuid.UUID{5}, Hash: hash, Prefix: "ngp_AbC1", IntegrationID: id, IssuedAt: noon,
			RevokedAt: new(noon.Add(time.Minute)),
		},
		{
			ID: uuid.UUID{6}, Hash: other, Prefix: "ngp_XyZ9", IntegrationID: id, IssuedAt: noon,
			ExpiresAt: new(noon.Add(2 * time.Minute)),
		},
	}
	for _, from := range []int{1, 0, 4, 12} { // the rest; then again all, and parts of it
		applyBatch(t, pool, projections.Integrations{}, history(events.IntegrationStream, id, from+1, stream[from:]...))
		if diff := cmp.Diff(want, readIntegration(t, pool, id)); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", from, diff)
		}
		if diff := cmp.Diff(wantKeys, readKeys(t, pool)); diff != "" {
			t.Errorf("keys from %d (-want +got):\n%s", from, diff)
		}
	}
	applyBatch(t, pool, projections.Integrations{},
		history(events.IntegrationStream, id, len(stream)+1,
			events.RateLimitSet{Operation: "novels", Updates: &events.UpdateLimit{}}))
	if got := readIntegration(t, pool, id); got.NovelUpdatesPerMinute != nil {
		t.Errorf("updates switched off: %+v", got)
	}
	if err := (projections.Integrations{}).Apply(t.Context(), pool, history(events.IntegrationStream, uuid.UUID{2}, 1,
		events.IntegrationRegistered{Name: "ANOTHER", RegisteredAt: noon})); constraint(err) != "integrations_name_key" {
		t.Errorf("a second integration of one name: %v", err)
	}
}
