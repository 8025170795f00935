package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/title"
)

// Merge reports two novels whose folded titles have become equal under newer Unicode tables. Look-ups by title find
// Kept. Hidden keeps its stream, slug and thread, but is no longer found by title.
type Merge struct {
	FoldedTitle  string
	Kept, Hidden uuid.UUID
}

// A folded title never begins with white space, so no title equals these keys.
const (
	hiddenPrefix = " hidden "
	tempPrefix   = " temporary "
)

const (
	foldSetting    = "fold_table"
	readSettingSQL = `SELECT value FROM settings WHERE name = $1`
	// changeInlineSQL changes the generation of the inline projections.
	changeInlineSQL = `UPDATE settings SET value = (value::bigint + 1)::text WHERE name = 'inline_generation'`
	writeSettingSQL = `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	// The order in which novels keep a title that several have: the older one first, and free titles, which have no novel,
	// last.
	titlesByAgeSQL = `SELECT t.novel_id, t.folded_title, t.title
FROM title_lookup t JOIN events e ON e.stream_id = t.novel_id AND e.stream_version = 1
ORDER BY t.state = 'free', e.log_index`

	refoldSQL = `UPDATE title_lookup t SET folded_title = c.folded_title
FROM unnest($1::uuid[], $2::text[]) AS c (novel_id, folded_title) WHERE t.novel_id = c.novel_id`

	namesByAgeSQL = `SELECT integration_id, folded_name, name FROM integrations ORDER BY registered_at, integration_id`

	refoldNamesSQL = `UPDATE integrations i SET folded_name = c.folded_name
FROM unnest($1::uuid[], $2::text[]) AS c (integration_id, folded_name) WHERE i.integration_id = c.integration_id`
)

// ChangeInline records that the tables of inline projections change without an event: decisions that rest on what a
// process remembers of them are made again. It is called under the lock of the log.
func ChangeInline(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, changeInlineSQL); err != nil {
		return fmt.Errorf("change the generation of the inline projections: %w", err)
	}
	return nil
}

// RefoldTitles folds the titles of title_lookup and the names of integrations again if they were folded with other
// Unicode tables than those of this program. Otherwise some could not be found. It takes the lock of the log. Of
// integrations whose names have become equal, the oldest is found by it, and the others by their ids.
func RefoldTitles(ctx context.Context, db *pgxpool.Pool) (merges []Merge, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		if folded, err := isFolded(ctx, tx); err != nil || folded {
			return err
		}
		var lock pgx.Batch
		eventlog.Lock(&lock)
		if err := tx.SendBatch(ctx, &lock).Close(); err != nil {
			return err
		}
		if folded, err := isFolded(ctx, tx); err != nil || folded { // by another replica
			return err
		}
		if merges, err = refold(ctx, tx, titlesByAgeSQL, refoldSQL); err != nil {
			return err
		}
		if _, err = refold(ctx, tx, namesByAgeSQL, refoldNamesSQL); err != nil {
			return err
		}
		if err := ChangeInline(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, writeSettingSQL, foldSetting, title.TableHash())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("refold titles: %w", err)
	}
	return merges, nil
}

// isFolded reports whether the titles were folded with the Unicode tables of this program.
func isFolded(ctx context.Context, tx pgx.Tx) (bool, error) {
	var built string
	err := tx.QueryRow(ctx, readSettingSQL, foldSetting).Scan(&built)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return built == title.TableHash(), err
}

// refold writes the new folded texts of the rows that a query returns with identifier, folded text and spelling. Of
// several rows with one folded text, the first keeps it.
func refold(ctx context.Context, tx pgx.Tx, querySQL, updateSQL string) ([]Merge, error) {
	rows, err := tx.Query(ctx, querySQL)
	if err != nil {
		return nil, err
	}
	keepers := map[string]uuid.UUID{} // by final folded text
	var changed []uuid.UUID
	var temporary, final []string
	var merges []Merge
	var id uuid.UUID
	var old, spelling string
	_, err = pgx.ForEachRow(rows, []any{&id, &old, &spelling}, func() error {
		folded := title.Fold(spelling)
		if kept, taken := keepers[folded]; taken {
			merges = append(merges, Merge{folded, kept, id})
			folded = hiddenPrefix + id.String()
		}
		keepers[folded] = id
		if folded != old {
			changed, final = append(changed, id), append(final, folded)
			temporary = append(temporary, tempPrefix+id.String())
		}
		return nil
	})
	if err != nil || len(changed) == 0 {
		return merges, err
	}
	// In two steps, because the new folded text of one row may be the old one of another.
	for _, step := range [][]string{temporary, final} {
		if _, err := tx.Exec(ctx, updateSQL, changed, step); err != nil {
			return nil, err
		}
	}
	return merges, nil
}
