package projections

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/internal/database"
)

func updateNovels(ctx context.Context, tx database.Execer, changes []*novelChange) error {
	var (
		ids                                                    []pgtype.UUID
		versions                                               []int32
		authors, synopses, covers, genres, languages, statuses []*string
		states                                                 []pgtype.Text
		toHost                                                 []bool
		updatedAt, moderatedAt                                 []pgtype.Timestamptz
		updates, moderations                                   []string
	)
	for _, c := range changes {
		if c.version == 0 {
			continue
		}
		var encoded *string
		if c.patch.Genres != nil {
			text, err := genresJSON(*c.patch.Genres)
			if err != nil {
				return fmt.Errorf("encode genres of novel %s: %w", c.novelID, err)
			}
			encoded = &text
		}
		ids = append(ids, present(c.novelID))
		versions = append(versions, int32(c.version)) //nolint:gosec // the column is an integer; its check refuses overflow
		authors, synopses, covers = append(authors, c.patch.Author), append(synopses, c.patch.Synopsis),
			append(covers, c.patch.CoverURL)
		genres, languages, statuses = append(genres, encoded), append(languages, c.patch.Language),
			append(statuses, c.patch.ReadingStatus)
		states, toHost = append(states, c.state), append(toHost, c.toHost)
		updatedAt, moderatedAt = append(updatedAt, c.updatedAt), append(moderatedAt, c.moderatedAt)
		updates, moderations = append(updates, arrayText(c.updates)), append(moderations, arrayText(c.moderations))
	}
	if len(ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, novelsUpdateSQL, ids, versions, authors, synopses, covers, genres, languages, statuses,
		states, toHost,
		updatedAt, updates, moderatedAt, moderations); err != nil {
		return fmt.Errorf("update novels: %w", err)
	}
	return nil
}

// genresJSON returns genres as a JSON array; none are [].
func genresJSON(genres []string) (string, error) {
	encoded, err := json.Marshal(genres)
	return string(encoded), err
}

// arrayText returns numbers as PostgreSQL spells an array.
func arrayText(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return "{" + strings.Join(texts, ",") + "}"
}
