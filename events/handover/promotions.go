package handover

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/internal/database"
)

// Promotion is a promotion of a mirror, as every service publishes those of its log.
type Promotion struct {
	ID         uuid.UUID `json:"id"`
	Origin     string    `json:"origin"`       // of the ledger until then
	NextOrigin string    `json:"nextOrigin"`   // since then; the same after a handover
	Entries    int64     `json:"entries"`      // that the mirror had: the log index from which on the histories differ
	Root       tlog.Hash `json:"root"`         // of these entries
	Known      int64     `json:"knownEntries"` // of the newest checkpoint of the former origin that was known
	PromotedAt time.Time `json:"promotedAt"`
}

// Lost reports whether the former origin was lost, rather than handed over.
func (p *Promotion) Lost() bool { return p.Origin != p.NextOrigin }

const (
	promotionsSQL = `SELECT promotion_id, origin, next_origin, tree_size, root_hash, known_size, promoted_at
FROM promotions ORDER BY promoted_at, promotion_id`
	recordSQL = `INSERT INTO promotions (promotion_id, origin, next_origin, tree_size, root_hash, known_size, promoted_at)
VALUES ($1, $2, $3, $4, $5, $6, coalesce($7, statement_timestamp())) ON CONFLICT (promotion_id) DO NOTHING`
)

// List returns the promotions of a log, oldest first.
func List(ctx context.Context, db database.Querier) ([]Promotion, error) {
	list, err := database.Collect(ctx, db, "promotions", func(row pgx.CollectableRow) (p Promotion, err error) {
		var root []byte
		err = row.Scan(&p.ID, &p.Origin, &p.NextOrigin, &p.Entries, &root, &p.Known, &p.PromotedAt)
		copy(p.Root[:], root)
		p.PromotedAt = p.PromotedAt.UTC()
		return p, err
	}, promotionsSQL)
	if list == nil {
		list = []Promotion{}
	}
	return list, err
}

// IsPromoted reports whether the database is that of a former mirror.
func IsPromoted(ctx context.Context, db database.Querier) (promoted bool, err error) {
	const sql = `SELECT EXISTS (SELECT FROM promotions) AND NOT EXISTS (SELECT FROM mirror)`
	if err := db.QueryRow(ctx, sql).Scan(&promoted); err != nil {
		return false, fmt.Errorf("read promotions: %w", err)
	}
	return promoted, nil
}

// find returns the promotion with an id; nil if the log does not have it.
func find(ctx context.Context, db database.Querier, id uuid.UUID) (*Promotion, error) {
	list, err := List(ctx, db)
	for i := range list {
		if list[i].ID == id {
			return &list[i], nil
		}
	}
	return nil, err
}

// record stores a promotion, at the present time if it has none.
func record(ctx context.Context, tx pgx.Tx, p *Promotion) error {
	var at *time.Time
	if !p.PromotedAt.IsZero() {
		at = &p.PromotedAt
	}
	if _, err := tx.Exec(ctx, recordSQL, p.ID, p.Origin, p.NextOrigin, p.Entries, p.Root[:], p.Known, at); err != nil {
		return fmt.Errorf("record the promotion: %w", err)
	}
	return nil
}
