package projections

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

var postColumns = []string{
	"post_id", "thread_id", "novel_id", "integration_id", "author_id", "parent_post_id", "chapter_number", "content",
	"written_at", "recorded_at", "event_id", "root_post_id", "depth",
}

// Load implements Bulk. The first version of a stream is there once, so what imports a comment there adds a row of its own. Where a
// reply stands is known if all that is above it is in the batch; otherwise it has to wait until that is loaded.
func (Posts) Load(batch []events.Recorded) ([]Rows, []events.Recorded, error) {
	rows, places := newPostRows(len(batch)), newPlaces(len(batch))
	var rest []events.Recorded
	for i := range batch {
		e, ok := batch[i].Event.(events.PostImported)
		if ok && batch[i].StreamVersion == 1 && places.add(batch[i].StreamID, e.ParentPostID) {
			rows.add(&batch[i], &e)
		} else if _, erases := batch[i].Event.(events.AuthorErased); erases || batch[i].StreamType == events.PostStream {
			rest = append(rest, batch[i])
		}
	}
	chapters := make([]pgtype.Numeric, len(rows.posts))
	for i := range chapters {
		if !rows.chapters[i].Valid {
			continue
		}
		var err error
		if chapters[i], err = parseNumeric(rows.chapters[i].String); err != nil {
			return nil, nil, fmt.Errorf("chapter number of post %s: %w", rows.posts[i], err)
		}
	}
	next, order := make([]any, len(postColumns)), rows.byThread()
	values := pgx.CopyFromSlice(len(rows.posts), func(place int) ([]any, error) {
		i := order[place]
		// Pointers: a value would be copied into an interface each time.
		next[0], next[1], next[2], next[3] = &rows.posts[i], &rows.threads[i], &rows.novels[i], &rows.integrations[i]
		next[4], next[5], next[6], next[7] = &rows.authors[i], &rows.parents[i], &chapters[i], &rows.contents[i]
		next[8], next[9], next[10] = &rows.written[i], &rows.recorded[i], &rows.eventIDs[i]
		next[11], next[12] = &places.roots[i], &places.depths[i]
		return next, nil
	})
	return []Rows{{Table: "posts", Columns: postColumns, Values: values}}, rest, nil
}

// byThread returns the order in which rows of one thread follow one another: indexes that begin with it take them on pages that were just
// touched, which costs less.
func (r *postRows) byThread() []int {
	order := make([]int, len(r.posts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(r.threads[a].Bytes[:], r.threads[b].Bytes[:]) })
	return order
}

// parseNumeric reads a JSON number as PostgreSQL does, with as many digits behind the point as it was written with.
func parseNumeric(number string) (pgtype.Numeric, error) {
	mantissa, exponent, scientific := strings.Cut(strings.ReplaceAll(number, "E", "e"), "e")
	power, err := 0, error(nil)
	if scientific {
		power, err = strconv.Atoi(exponent)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok || err != nil {
		return pgtype.Numeric{}, fmt.Errorf("%s is no number", number)
	}
	return pgtype.Numeric{Int: digits, Exp: int32(power - len(fraction)), Valid: true}, nil //nolint:gosec // exponents are bounded where numbers come in
}
