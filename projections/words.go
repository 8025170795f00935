package projections

import (
	"context"
	_ "embed"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/title"
)

var (
	//go:embed words.sql
	wordsSQL string
	//go:embed words_edit.sql
	wordsEditSQL string
)

const (
	// $1: posts.
	wordsWithdrawSQL = `DELETE FROM post_words WHERE log_index = ANY (ARRAY(
    SELECT i.log_index FROM public.events AS i WHERE i.stream_id = ANY ($1::uuid[]) AND i.stream_version = 1))`
	// $1: author; $2: log index of the erasure.
	wordsEraseSQL = `DELETE FROM post_words
WHERE log_index = ANY ((SELECT words_of_author($1::uuid))::bigint[]) AND log_index < $2::bigint`
)

// wordSegment is the number of bits of a place in the log within a segment; see the table post_words.
const wordSegment = 16

// Words is the optional projection words: the hashed words in the latest text of each comment, hidden or not, by which
// staff find it. An erased or withdrawn comment has no row.
type Words struct{}

// Name implements Projection.
func (Words) Name() string { return "words" }

// Generation implements Projection. NeverBuilt is 1.
func (Words) Generation() int { return 2 }

// Tables implements Projection.
func (Words) Tables() []string { return []string{"post_words"} }

// Streams implements Projection.
func (Words) Streams() []string { return []string{events.PostStream, events.AuthorStream} }

// WordHashes returns the hashes by which post_words has words, sorted, each once. Different words may have the same.
func WordHashes(words []string) []int64 {
	hashes := make([]int64, len(words))
	for i, word := range words {
		hashes[i] = int64(crc32.ChecksumIEEE([]byte(word)))
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// Apply implements Projection.
func (Words) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	added, edited := map[uuid.UUID]*events.Recorded{}, map[uuid.UUID]string{} // imports; latest texts
	var withdrawn uuidColumn
	for i := range batch {
		id := batch[i].StreamID
		switch e := batch[i].Event.(type) {
		case events.PostImported:
			if e.Comment != nil {
				added[id] = &batch[i]
			}
		case events.PostEdited:
			if e.NewText && e.Comment != nil {
				edited[id] = e.Comment.Content
			}
		case events.PostWithdrawn:
			delete(added, id)
			delete(edited, id)
			withdrawn = append(withdrawn, pgUUID(id))
		default: // changes no text
		}
	}
	if err := addWords(ctx, tx, added, edited); err != nil {
		return err
	}
	if err := editWords(ctx, tx, edited); err != nil {
		return err
	}
	if len(withdrawn) > 0 {
		if _, err := tx.Exec(ctx, wordsWithdrawSQL, withdrawn); err != nil {
			return fmt.Errorf("withdraw words: %w", err)
		}
	}
	for i := range batch {
		if _, ok := batch[i].Event.(events.AuthorErased); ok {
			if _, err := tx.Exec(ctx, wordsEraseSQL, batch[i].StreamID, batch[i].LogIndex); err != nil {
				return fmt.Errorf("erase words: %w", err)
			}
		}
	}
	return nil
}

// addWords adds imported comments with their latest texts, and removes these from edited.
func addWords(
	ctx context.Context, tx database.Execer, added map[uuid.UUID]*events.Recorded, edited map[uuid.UUID]string,
) error {
	if len(added) == 0 {
		return nil
	}
	var (
		posts, integrations uuidColumn
		indexes             []int64
		authors             []string
		words               wordColumn
	)
	// In the order of the log, which is that of the table.
	for _, r := range slices.SortedFunc(maps.Values(added), func(a, b *events.Recorded) int {
		return int(a.LogIndex - b.LogIndex)
	}) {
		e, _ := r.Event.(events.PostImported)
		text, ok := edited[r.StreamID]
		if !ok {
			text = e.Comment.Content
		}
		delete(edited, r.StreamID)
		posts, integrations = append(posts, pgUUID(r.StreamID)), append(integrations, pgUUID(e.IntegrationID))
		indexes, authors = append(indexes, r.LogIndex), append(authors, e.Comment.ExternalUUID)
		words.add(text, r.LogIndex>>wordSegment<<32)
	}
	if _, err := tx.Exec(ctx, wordsSQL, posts, indexes, integrations, authors, words.hashes, words.first,
		words.last); err != nil {
		return fmt.Errorf("add words: %w", err)
	}
	return nil
}

func editWords(ctx context.Context, tx database.Execer, edited map[uuid.UUID]string) error {
	if len(edited) == 0 {
		return nil
	}
	var posts uuidColumn
	var words wordColumn
	for _, id := range slices.SortedFunc(maps.Keys(edited), compareIDs) {
		posts = append(posts, pgUUID(id))
		words.add(edited[id], 0)
	}
	if _, err := tx.Exec(ctx, wordsEditSQL, posts, words.hashes, words.first, words.last); err != nil {
		return fmt.Errorf("edit words: %w", err)
	}
	return nil
}

// wordColumn has the words of several comments: hashes of all in turn, of which first and last are the places of each
// comment, counted from 1.
type wordColumn struct {
	hashes      pgtype.FlatArray[int64]
	first, last intColumn
}

// add adds the words of a text, in a segment.
func (c *wordColumn) add(text string, segment int64) {
	c.first = append(c.first, int32(len(c.hashes)+1)) //nolint:gosec // a batch has some MB of text
	for _, hash := range WordHashes(title.Words(text)) {
		c.hashes = append(c.hashes, segment|hash)
	}
	c.last = append(c.last, int32(len(c.hashes))) //nolint:gosec // see above
}
