package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
)

//go:embed take.sql
var takeSQL string

// key identifies a window.
type key struct {
	integration uuid.UUID
	operation   Operation
}

// order is the input of one database call, which returns permits and then takes some.
type order struct {
	limit  int
	wanted int
	lease  bool // also take a lease

	returnedAt []time.Time // charges of the returned permits …
	returned   []int64     // … and the number of permits of each
}

// receipt is the result of a database call. Times are by the database's clock; durations start at the time of its
// decision.
type receipt struct {
	granted, leased, used  int
	grantedAt, leasedUntil time.Time
	retryAfter, resetAfter time.Duration
}

// take executes an order in one statement, which is its own transaction. After an error the outcome is unknown.
func take(ctx context.Context, pool *pgxpool.Pool, k key, o order) (receipt, error) {
	share := 0
	if o.lease {
		share = leaseShare
	}
	if o.returnedAt == nil {
		o.returnedAt, o.returned = []time.Time{}, []int64{}
	}
	var r receipt
	err := database.Retry(ctx, pool, func(again bool) error {
		if again {
			// The first attempt may have succeeded. Permits taken twice are only missing for a minute, but permits returned
			// twice would be granted twice.
			o.returnedAt, o.returned = []time.Time{}, []int64{}
		}
		return pool.QueryRow(ctx, takeSQL,
			k.integration, string(k.operation), o.limit, o.wanted, share, leaseTime, o.returnedAt, o.returned,
		).Scan(&r.granted, &r.leased, &r.used, &r.grantedAt, &r.leasedUntil, &r.retryAfter, &r.resetAfter)
	})
	if err != nil {
		return receipt{}, fmt.Errorf("take %s permits: %w", k.operation, err)
	}
	return r, nil
}
