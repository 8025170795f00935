package e2e_test

import (
	"testing"
)

const byName = `SELECT author_id::text FROM analytics.authors WHERE integration_id = $1 AND external_uuid = $2 AND display_name = $3`

func TestDisplayNameIsThatOfTheLatestTimestamp(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Names")
	say := func(username, timestamp string) {
		t.Helper()
		p.Import(t, Key(), Comment(title).With(Fields{
			"uuid": "member", "username": username, "timestamp": timestamp,
		})).WantPost(t, 201)
	}
	var first, second, third, last string
	say("Anna", "2024-01-01T00:00:00Z")
	p.Service.Projected(t, []any{&first}, byName, p.IntegrationID, "member", "Anna")
	say("Berta", "2024-01-03T00:00:00Z")
	p.Service.Projected(t, []any{&second}, byName, p.IntegrationID, "member", "Berta")
	say("Too late", "2024-01-02T00:00:00Z") // delivered last, written before
	say("Clara", "2024-01-03T01:30:00+01:00")
	p.Service.Projected(t, []any{&third}, byName, p.IntegrationID, "member", "Clara")
	say("Too late again", "2023-12-31T00:00:00Z")

	// A comment of somebody else shows that everything before it has been projected.
	p.Import(t, Key(), Comment(title).With(Fields{
		"uuid":     "marker",
		"username": "Marker",
	})).WantPost(t, 201)
	p.Service.Projected(t, []any{&last}, byName, p.IntegrationID, "marker", "Marker")
	p.Service.Projected(t, []any{&last}, byName, p.IntegrationID, "member", "Clara")
	if first != second || second != third || third != last {
		t.Errorf("authors %s, %s, %s, %s, want one identity", first, second, third, last)
	}
	var identities int
	p.Service.Projected(t, []any{&identities}, "SELECT count(*) FROM analytics.authors WHERE integration_id = $1",
		p.IntegrationID)
	if identities != 2 {
		t.Errorf("%d identities, want 2", identities)
	}
}
