package handover

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/internal/database"
)

// Promotion is a promotion of a mirror. Every service publishes the promotions of its log.
type Promotion struct {
	ID           uuid.UUID `json:"id"`
	Origin       string    `json:"origin"`       // of the ledger until then
	NextOrigin   string    `json:"nextOrigin"`   // since then; the same after a handover
	Entries      int64     `json:"entries"`      // that the mirror had: the log index from which on the histories differ
	Root         tlog.Hash `json:"root"`         // of these entries
	KnownEntries int64     `json:"knownEntries"` // of the newest known checkpoint of the former origin
	PromotedAt   time.Time `json:"promotedAt"`
}

// Lost reports whether the former origin was lost, rather than handed over.
func (p *Promotion) Lost() bool { return p.Origin != p.NextOrigin }

const (
	promotionsSQL = `SELECT promotion_id, origin, next_origin, tree_size, root_hash, known_size, promoted_at
FROM promotions`
	listSQL   = promotionsSQL + ` ORDER BY promoted_at, promotion_id`
	latestSQL = promotionsSQL + ` WHERE NOT EXISTS (SELECT FROM mirror) ORDER BY promoted_at DESC, promotion_id DESC LIMIT 1`
	insertSQL = `INSERT INTO promotions (promotion_id, origin, next_origin, tree_size, root_hash, known_size, promoted_at)`
	// recordSQL records a promotion, with a time after all others also if the clock is behind. $1: id, $2: origin,
	// $3: next origin, $4: events, $5: root, $6: known entries.
	recordSQL = insertSQL + `
SELECT $1, $2, $3, $4, $5, $6, greatest(statement_timestamp(), max(promoted_at) + interval '1 microsecond') FROM promotions`
	// copySQL copies a promotion to a mirror, and locks the row of the mirror, so that it is not promoted meanwhile. It
	// leaves out a promotion of more than a day in the future, because no promotion could be later. $1 to $6: as above,
	// $7: its time.
	copySQL = insertSQL + `
SELECT $1, $2, $3, $4, $5, $6, $7::timestamptz FROM mirror
WHERE $7::timestamptz < statement_timestamp() + interval '1 day'
FOR KEY SHARE ON CONFLICT (promotion_id) DO NOTHING`
)

// Successor returns the promotion of a service that replaces a log with the known promotions; nil without one. If there
// are several, it returns the one with the fewest entries. A promotion replaces the log unless it is known or a known
// one is later: of two mirrors, the one that was promoted later continues. If both have the same time, the one with the
// larger id is later. A promotion of the service without a time counts as later than all known ones.
func Successor(known, theirs []Promotion) (first *Promotion) {
	for _, p := range theirs {
		replaces := !slices.ContainsFunc(known, func(k Promotion) bool {
			later := cmp.Or(k.PromotedAt.Compare(p.PromotedAt), bytes.Compare(k.ID[:], p.ID[:]))
			return k.ID == p.ID || !p.PromotedAt.IsZero() && later > 0
		})
		if replaces && (first == nil || p.Entries < first.Entries) {
			first = &p
		}
	}
	return first
}

// List returns the promotions of a log, oldest first.
func List(ctx context.Context, db database.Querier) ([]Promotion, error) {
	list, err := database.Collect(ctx, db, "promotions", scanPromotion, listSQL)
	if list == nil {
		list = []Promotion{}
	}
	return list, err
}

func scanPromotion(row pgx.CollectableRow) (p Promotion, err error) {
	var root []byte
	err = row.Scan(&p.ID, &p.Origin, &p.NextOrigin, &p.Entries, &root, &p.KnownEntries, &p.PromotedAt)
	copy(p.Root[:], root)
	p.PromotedAt = p.PromotedAt.UTC()
	return p, err
}

// Known returns the promotions that do not replace a database: those of its log, and ignored ones, which have only an
// id.
func Known(ctx context.Context, db database.Querier) ([]Promotion, error) {
	list, err := List(ctx, db)
	if err != nil {
		return nil, err
	}
	ignored, err := database.Collect(ctx, db, "ignored promotions", func(row pgx.CollectableRow) (p Promotion, err error) {
		err = row.Scan(&p.ID)
		return p, err
	}, `SELECT promotion_id FROM ignored_promotions`)
	return append(list, ignored...), err
}

// Latest returns the newest promotion of the log of a former mirror; nil for any other database.
func Latest(ctx context.Context, db database.Querier) (*Promotion, error) {
	list, err := database.Collect(ctx, db, "promotions", scanPromotion, latestSQL)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
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

// record stores a new promotion.
func record(ctx context.Context, tx pgx.Tx, p *Promotion) error {
	_, err := tx.Exec(ctx, recordSQL, p.ID, p.Origin, p.NextOrigin, p.Entries, p.Root[:], p.KnownEntries)
	if err != nil {
		return fmt.Errorf("record the promotion: %w", err)
	}
	return nil
}

// storePromotions stores promotions of the origin of a mirror. It changes nothing in a database that is not a mirror.
func storePromotions(ctx context.Context, pool *pgxpool.Pool, list []Promotion) error {
	for i := range list {
		p := &list[i]
		_, err := pool.Exec(ctx, copySQL, p.ID, p.Origin, p.NextOrigin, p.Entries, p.Root[:], p.KnownEntries, p.PromotedAt)
		if err != nil {
			return fmt.Errorf("copy a promotion of the origin: %w", err)
		}
	}
	return nil
}

// CopyPromotions copies the promotions that the origin of a mirror publishes at a public URL. Once the mirror is
// promoted, services that these promotions replaced recognise it as their successor.
func CopyPromotions(ctx context.Context, pool *pgxpool.Pool, client *http.Client, url string) error {
	theirs, err := fetchOrigins(ctx, client, url)
	if err != nil {
		return err
	}
	known, err := List(ctx, pool)
	if err != nil {
		return err
	}
	return storePromotions(ctx, pool, slices.DeleteFunc(theirs.Promotions, func(p Promotion) bool {
		return slices.ContainsFunc(known, func(k Promotion) bool { return k.ID == p.ID })
	}))
}
