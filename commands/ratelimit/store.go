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

// key names one window.
type key struct {
	integration uuid.UUID
	operation   Operation
}

// order is what one call asks of the database: give back, then take.
type order struct {
	limit  int
	wanted int
	lease  bool // take a lease as well

	returnedAt []time.Time // charges of the permits that come back …
	returned   []int64     // … and how many of each
}

// receipt is what the database did. Times are on its clock; durations count from the moment at which it decided.
type receipt struct {
	granted, leased, used  int
	grantedAt, leasedUntil time.Time
	retryAfter, resetAfter time.Duration
}

// take carries out an order in one statement, which is its own transaction. After an error the order may have been
// carried out or not.
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
			// The first call may have been carried out. What is taken twice is missing for a minute; what were given
			// back twice would be granted twice.
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
