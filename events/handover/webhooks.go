package handover

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

//go:embed webhooks_read.sql
var readWebhooksSQL string

//go:embed webhooks_write.sql
var writeWebhooksSQL string

// readWebhooks returns the webhooks of partners, which are not in the history, with their pending changes. The database
// must be fenced, so that the webhooks do not change, and all events must be sealed.
func readWebhooks(ctx context.Context, db database.Querier) (jsontext.Value, error) {
	var text string
	if err := db.QueryRow(ctx, readWebhooksSQL).Scan(&text); err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return jsontext.Value(text), nil
}

// writeWebhooks stores what readWebhooks has returned. All events must be sealed.
func writeWebhooks(ctx context.Context, tx pgx.Tx, list jsontext.Value) error {
	if _, err := tx.Exec(ctx, writeWebhooksSQL, string(list)); err != nil {
		return fmt.Errorf("store webhooks: %w", err)
	}
	return nil
}
