package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
	"novelgate/internal/title"
)

// Merge reports two novels whose folded titles are equal under newer Unicode tables. Look-ups by title find Kept.
// Hidden keeps its stream, slug and thread, but is not found by title any more.
type Merge struct {
	FoldedTitle  string
	Kept, Hidden uuid.UUID
}

// A folded title never begins with white space, so no title reaches these keys.
const (
	hiddenPrefix = " hidden "
	asidePrefix  = " aside "
)

const (
	foldSetting     = "fold_table"
	readSettingSQL  = `SELECT value FROM settings WHERE name = $1`
	writeSettingSQL = `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	// Of two novels with one title the older one is kept. A free title, which has no novel, is never kept against a novel.
	titlesByAgeSQL = `SELECT t.novel_id, t.folded_title, t.title
FROM title_lookup t JOIN events e ON e.stream_id = t.novel_id AND e.stream_version = 1
ORDER BY t.state = 'free', e.transaction_id, e.position`

	refoldSQL = `UPDATE title_lookup t SET folded_title = c.folded_title
FROM unnest($1::uuid[], $2::text[]) AS c (novel_id, folded_title) WHERE t.novel_id = c.novel_id`
)

// RefoldTitles folds the keys of title_lookup again if they were made with other Unicode tables than those of this
// program. Otherwise some titles could not be found. It locks the table against writers until it is done.
func RefoldTitles(ctx context.Context, db database.Beginner) ([]Merge, error) {
	var merges []Merge
	tx, err := db.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("refold titles: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // no effect after a commit
	err = func() error {
		var built string
		if err := tx.QueryRow(ctx, readSettingSQL, foldSetting).Scan(&built); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if built == title.TableHash() {
			return nil
		}
		if _, err := tx.Exec(ctx, `LOCK TABLE title_lookup IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		var err error
		if merges, err = refold(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, writeSettingSQL, foldSetting, title.TableHash()); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}()
	if err != nil {
		return nil, fmt.Errorf("refold titles: %w", err)
	}
	return merges, nil
}

func refold(ctx context.Context, tx pgx.Tx) ([]Merge, error) {
	rows, err := tx.Query(ctx, titlesByAgeSQL)
	if err != nil {
		return nil, err
	}
	holder := map[string]uuid.UUID{} // final folded title → novel
	var changed []uuid.UUID
	var aside, final []string
	var merges []Merge
	var id uuid.UUID
	var old, spelling string
	_, err = pgx.ForEachRow(rows, []any{&id, &old, &spelling}, func() error {
		folded := title.Fold(spelling)
		if kept, taken := holder[folded]; taken {
			merges = append(merges, Merge{folded, kept, id})
			folded = hiddenPrefix + id.String()
		}
		holder[folded] = id
		if folded != old {
			changed, aside, final = append(changed, id), append(aside, asidePrefix+id.String()), append(final, folded)
		}
		return nil
	})
	if err != nil || len(changed) == 0 {
		return merges, err
	}
	// In two steps, because the new folded title of one novel may be the old one of another.
	for _, step := range [][]string{aside, final} {
		if _, err := tx.Exec(ctx, refoldSQL, changed, step); err != nil {
			return nil, err
		}
	}
	return merges, nil
}
