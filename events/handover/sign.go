package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

const (
	// nextSQL returns a transaction id above those of all running transactions.
	nextSQL = `SELECT pg_current_xact_id()::text`
	// endedSQL reports whether all transactions below an id have ended. $1: id.
	endedSQL = `SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8`
)

// awaitTransactions waits until the writing transactions that run now, anywhere in the cluster, have ended: until then,
// later events cannot be sealed. It fails with ErrRefused after Wait.
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
			return late(limited, "a transaction in the cluster has run for %v and delays the ledger: see pg_stat_activity",
				o.Wait)
		}
	}
}

// sign signs a checkpoint over all events. Running replicas seal and sign, too.
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
	store := ledger.NewStore(o.Pool)
	for {
		err := signer.Sign(ctx)
		var c ledger.Checkpoint
		if err == nil || errors.Is(err, ledger.ErrLocked) {
			if c, err = store.Newest(ctx, id.Origin); err == nil {
				var tree tlog.Tree
				if tree, err = store.Tree(ctx); err == nil && tree == c.Tree {
					return c, nil
				}
			}
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return ledger.Checkpoint{}, fmt.Errorf("sign the final checkpoint: %w", err)
		}
		if !eventlog.Sleep(ctx, poll) {
			return ledger.Checkpoint{}, late(ctx, "the final checkpoint was not signed in time")
		}
	}
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
			return late(ctx, "not all events were sealed in time; a long transaction in the cluster delays it")
		}
	}
}
