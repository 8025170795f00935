package chaos_test

import (
	"context"
	"math/rand/v2"
	"net/url"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/migrations"
	"novelgate/projections"
)

// rebuild replays the log into an empty database on the same server, in batches of any size, and returns its URL.
func rebuild(t testing.TB, databaseURL string, recorded []events.Recorded) string {
	t.Helper()
	ctx := context.Background()
	name := "rebuilt_" + uuid.NewString()[:8]
	execute(t, databaseURL, `CREATE DATABASE `+name)
	t.Cleanup(func() { execute(t, databaseURL, `DROP DATABASE `+name+` WITH (FORCE)`) })
	scratch, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatalf("parse database URL: %v", err)
	}
	scratch.Path = "/" + name
	if err := migrations.Up(ctx, scratch.String()); err != nil {
		t.Fatalf("migrate the scratch database: %v", err)
	}
	connection := connect(t, scratch.String())
	defer func() { _ = connection.Close(ctx) }()
	all := append(projections.Inline(), projections.All()...)
	for len(recorded) > 0 {
		batch := recorded[:min(1+rand.IntN(500), len(recorded))]
		recorded = recorded[len(batch):]
		tx, err := connection.Begin(ctx)
		if err != nil {
			t.Fatalf("begin: %v", err)
		}
		for _, projection := range all {
			if err := projection.Apply(ctx, tx, batch); err != nil {
				t.Fatalf("replay %s: %v", projection.Name(), err)
			}
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	return scratch.String()
}
