package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

const (
	// nextSQL returns a transaction id above those of all running transactions.
	nextSQL = `SELECT pg_current_xact_id()::text`
	// endedSQL reports whether all transactions below an id have ended. $1: id.
	endedSQL = `SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8`
)

// awaitTransactions waits for the writing transactions that run now, in any database of the cluster: an event is sealed
// only when no transaction with a lower id still runs. It fails with ErrRefused after Wait.
func (o *Origin) awaitTransactions(ctx context.Context) error {
	var next string
	if err := o.Pool.QueryRow(ctx, nextSQL).Scan(&next); err != nil {
		return fmt.Errorf("find running transactions: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for {
		var ended bool
		if err := o.Pool.QueryRow(ctx, endedSQL, next).Scan(&ended); err != nil {
			return fmt.Errorf("wait for running transactions: %w", err)
		}
		if ended {
			return nil
		}
		if !eventlog.Sleep(limited, poll) {
			return waitError(limited, "a transaction in the cluster has run for %v and delays the ledger: see pg_stat_activity",
				o.Wait)
		}
	}
}

// sign returns a signed checkpoint over all events. It tries until ctx ends, because running replicas sign, too: the
// newest checkpoint may be theirs, and not cover all events yet.
func (o *Origin) sign(ctx context.Context) (ledger.Checkpoint, error) {
	if err := Seal(ctx, o.Pool, o.Logger); err != nil {
		return ledger.Checkpoint{}, err
	}
	id, err := o.identify(ctx)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	signer, err := ledger.NewSigner(ledger.SignerConfig{Pool: o.Pool, Identity: id, Logger: o.Logger})
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	for {
		err := signer.Sign(ctx)
		var c ledger.Checkpoint
		var final bool
		if err == nil || errors.Is(err, ledger.ErrLocked) { // locked: a replica signs
			c, final, err = o.newest(ctx, id.Origin)
		}
		switch {
		case final:
			return c, nil
		case err != nil && !errors.Is(err, ledger.ErrNotFound):
			return ledger.Checkpoint{}, fmt.Errorf("sign the final checkpoint: %w", err)
		case !eventlog.Sleep(ctx, poll):
			return ledger.Checkpoint{}, waitError(ctx, "the final checkpoint was not signed in time")
		}
	}
}

// newest returns the newest checkpoint of an origin of the ledger, and whether it covers all sealed events.
func (o *Origin) newest(ctx context.Context, origin string) (c ledger.Checkpoint, final bool, err error) {
	store := ledger.NewStore(o.Pool)
	if c, err = store.Newest(ctx, origin); err != nil {
		return c, false, err
	}
	tree, err := store.Tree(ctx)
	return c, err == nil && tree == c.Tree, err
}

// Seal seals all events of a log that does not grow.
func Seal(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error {
	sealing, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { stop(); <-ended }()
	sealer := ledger.NewSealer(ledger.SealerConfig{Pool: pool, Logger: logger})
	go func() {
		defer close(ended)
		sealer.Run(sealing)
	}()
	for {
		sealed, err := ledger.ReadSealed(ctx, pool)
		if err == nil && !sealed.Unsealed {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !eventlog.Sleep(ctx, poll) {
			return waitError(ctx, "not all events were sealed in time; a long transaction in the cluster delays it")
		}
	}
}
