// Package names finds what people call the things that events and answers name by id.
package names

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// namesSQL looks each id up by index; the LIMITs keep PostgreSQL from reading whole tables instead. The first event of
// a thread or of a post names its novel. $1: ids.
const namesSQL = `SELECT wanted, coalesce(i.name, n.title, t.title)
FROM unnest($1::uuid[]) AS wanted
LEFT JOIN LATERAL (SELECT name FROM integrations WHERE integration_id = wanted LIMIT 1) AS i ON true
LEFT JOIN LATERAL (SELECT title FROM title_lookup WHERE novel_id = wanted LIMIT 1) AS n ON true
LEFT JOIN LATERAL (
    SELECT (SELECT title FROM title_lookup WHERE novel_id = (f.data ->> 'novelId')::uuid) AS title
    FROM events AS f
    WHERE f.stream_id = wanted AND f.stream_version = 1 AND f.stream_type IN ('thread', 'post') LIMIT 1
) AS t ON true
WHERE coalesce(i.name, n.title, t.title) IS NOT NULL`

// Of returns the names of integrations, and the titles of novels, of threads and of posts. Ids of anything else have
// none.
func Of(ctx context.Context, db database.Querier, ids ...uuid.UUID) (map[uuid.UUID]string, error) {
	found := map[uuid.UUID]string{}
	if len(ids) == 0 {
		return found, nil
	}
	rows, _ := db.Query(ctx, namesSQL, ids) // ForEachRow returns its error
	var id uuid.UUID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		found[id] = name
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find names: %w", err)
	}
	return found, nil
}

// Integration returns the integration that is an actor, uuid.Nil for another actor.
func Integration(actor string) uuid.UUID {
	text, _ := strings.CutPrefix(actor, "integration:")
	id, err := uuid.Parse(text)
	if err != nil || text == actor {
		return uuid.Nil
	}
	return id
}
