// Package consumers contains example consumers of the event streams that docs/events.md explains. They maintain a table
// for searching comments. Follow uses only nats.go, Router uses Watermill. The directory typescript contains Follow in
// TypeScript.
package consumers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
)

// Schema creates the table of a consumer, and a table with the sequence of the last applied message.
const Schema = `
CREATE TABLE search_comments (
    post_id   uuid PRIMARY KEY,
    novel_id  uuid NOT NULL,
    author_id uuid NOT NULL,
    username  text NOT NULL,
    content   text NOT NULL,
    hidden    boolean NOT NULL DEFAULT false,
    words     tsvector GENERATED ALWAYS AS (to_tsvector('simple', content)) STORED
);
CREATE INDEX ON search_comments USING gin (words);
CREATE INDEX ON search_comments (author_id);
CREATE TABLE search_position (sequence bigint NOT NULL);
INSERT INTO search_position VALUES (0);`

// Subjects are the events that the table needs, of all novels.
var Subjects = []string{"novelgate.v1.*.post.>", "novelgate.v1.*.author.erased.>"}

// Event has the members of a CloudEvent that the table needs.
type Event struct {
	Type     string    `json:"type"`
	Source   string    `json:"source"`
	StreamID uuid.UUID `json:"streamid"`
	Data     struct {
		NovelID uuid.UUID `json:"novelId"`
	} `json:"data"`
}

// Comment is the personal part of post.imported.v1.
type Comment struct {
	UUID     string `json:"uuid"`
	Username string `json:"username"`
	Content  string `json:"content"`
}

// Table is the table of a consumer.
type Table struct {
	Pool     *pgxpool.Pool
	Personal jetstream.Stream // with the names and texts of comments
}

const (
	moveSQL   = `UPDATE search_position SET sequence = $1 WHERE sequence < $1`
	insertSQL = `INSERT INTO search_comments (post_id, novel_id, author_id, username, content) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (post_id) DO NOTHING`
	hideSQL  = `UPDATE search_comments SET hidden = $2 WHERE post_id = $1`
	eraseSQL = `DELETE FROM search_comments WHERE author_id = $1`
)

// Apply applies a message of the main stream and stores its sequence, in one transaction. A message that is delivered
// again changes nothing.
func (t *Table) Apply(ctx context.Context, sequence uint64, payload []byte) error {
	var e Event
	if err := json.Unmarshal(payload, &e); err != nil {
		return fmt.Errorf("decode event %d: %w", sequence, err)
	}
	comment, err := t.comment(ctx, sequence, &e)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, t.Pool, func(tx pgx.Tx) error {
		moved, err := tx.Exec(ctx, moveSQL, int64(sequence)) //nolint:gosec // a log index and one
		if err != nil || moved.RowsAffected() == 0 {
			return err
		}
		switch {
		case comment != nil:
			_, err = tx.Exec(ctx, insertSQL, e.StreamID, e.Data.NovelID, authorID(&e, comment), comment.Username,
				comment.Content)
		case e.Type == "post.hidden.v1", e.Type == "post.restored.v1":
			_, err = tx.Exec(ctx, hideSQL, e.StreamID, e.Type == "post.hidden.v1")
		case strings.HasPrefix(e.Type, "author.erased."):
			_, err = tx.Exec(ctx, eraseSQL, e.StreamID)
		}
		return err
	})
}

// comment returns the personal part of a comment, nil if it was erased or the event is not a comment. The personal part
// is stored before the event, so a missing message means that it was erased.
func (t *Table) comment(ctx context.Context, sequence uint64, e *Event) (*Comment, error) {
	if e.Type != "post.imported.v1" {
		return nil, nil // not a comment
	}
	found, err := t.Personal.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && len(found.Data) == 0 {
		return nil, nil // erased
	}
	if err != nil {
		return nil, fmt.Errorf("read the personal part of event %d: %w", sequence, err)
	}
	var c Comment
	if err := json.Unmarshal(found.Data, &c); err != nil {
		return nil, fmt.Errorf("decode the personal part of event %d: %w", sequence, err)
	}
	return &c, nil
}

// authors is the namespace of the ids of authors.
var authors = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e04")

// authorID returns the id under which author.erased.v1 names the author of a comment: the UUID, version 5, of the 16
// bytes of the integration's id followed by the partner's identifier of the author.
func authorID(e *Event, c *Comment) uuid.UUID {
	integration := uuid.MustParse(strings.Split(e.Source, "/")[1]) // integrations/{id}/posts
	return uuid.NewSHA1(authors, append(integration[:], c.UUID...))
}

// Sequence returns the sequence of the last applied message.
func (t *Table) Sequence(ctx context.Context) (sequence uint64, err error) {
	err = t.Pool.QueryRow(ctx, `SELECT sequence FROM search_position`).Scan(&sequence)
	return sequence, err
}
