package projections

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

var postColumns = []string{
	"post_id", "thread_id", "novel_id", "integration_id", "author_id", "parent_post_id", "chapter_number",
	"content_bytes", "written_at", "recorded_at", "root_post_id", "depth",
}

// NewLoader implements Bulk.
func (Posts) NewLoader() Loader { return &postsLoader{} }

type postsLoader struct{ places places }

// loadedPost is a row to copy.
type loadedPost struct {
	postRow
	root   pgtype.UUID
	depth  int32
	number pgtype.Numeric // chapter
}

// Load implements Loader. The first version of a stream is there once, so what imports a comment there adds a row of
// its own. Where a reply stands is known if what it replies to was loaded not long ago; otherwise Apply finds out.
func (l *postsLoader) Load(batch []events.Recorded) ([]Rows, []events.Recorded, error) {
	rows := make([]loadedPost, 0, len(batch))
	var rest []events.Recorded
	for i := range batch {
		if e, ok := batch[i].Event.(events.PostImported); ok && batch[i].StreamVersion == 1 {
			row := loadedPost{postRow: newPostRow(&batch[i], &e)}
			if at := l.places.add(batch[i].StreamID, row.parent); !at.anchor.Valid {
				if err := row.complete(at); err != nil {
					return nil, nil, err
				}
				rows = append(rows, row)
				continue
			}
		}
		if _, erases := batch[i].Event.(events.AuthorErased); erases || batch[i].StreamType == events.PostStream {
			rest = append(rest, batch[i])
		}
	}
	next, order := make([]any, len(postColumns)), byThread(rows)
	values := pgx.CopyFromSlice(len(rows), func(place int) ([]any, error) {
		r := &rows[order[place]]
		// Pointers: a value would be copied into an interface each time.
		next[0], next[1], next[2], next[3] = &r.post, &r.thread, &r.novel, &r.integration
		next[4], next[5], next[6], next[7] = &r.author, &r.parent, &r.number, &r.length
		next[8], next[9], next[10], next[11] = &r.written, &r.recorded, &r.root, &r.depth
		return next, nil
	})
	return []Rows{{Table: "posts", Columns: postColumns, Values: values}}, rest, nil
}

// complete adds where the post stands, and the number of its chapter.
func (p *loadedPost) complete(at place) (err error) {
	p.root, p.depth = pgtype.UUID{Bytes: at.top, Valid: at.steps > 0}, at.steps
	if !p.chapter.Valid {
		return nil
	}
	if p.number, err = parseNumeric(p.chapter.String); err != nil {
		return fmt.Errorf("chapter number of post %s: %w", uuid.UUID(p.post.Bytes), err)
	}
	return nil
}

// byThread returns the order in which rows of one thread follow one another: indexes that begin with it take them on
// pages that were just touched, which costs less.
func byThread(rows []loadedPost) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order,
		func(a, b int) int { return bytes.Compare(rows[a].thread.Bytes[:], rows[b].thread.Bytes[:]) })
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
