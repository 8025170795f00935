// Package consumers has example consumers of the event streams, which docs/events.md explains. They keep a table up to
// date in which comments can be searched: Follow with nats.go only, Router with Watermill. The directory typescript has
// the same as Follow in TypeScript.
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

// Schema creates the table of a consumer, and the sequence of the last message that it has applied.
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

// Event is what the table needs of a CloudEvent.
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
	Personal jetstream.Stream // with the words of comments
}

const (
	moveSQL   = `UPDATE search_position SET sequence = $1 WHERE sequence < $1`
	insertSQL = `INSERT INTO search_comments (post_id, novel_id, author_id, username, content) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (post_id) DO NOTHING`
	hideSQL   = `UPDATE search_comments SET hidden = $2 WHERE post_id = $1`
	forgetSQL = `DELETE FROM search_comments WHERE author_id = $1`
)

// Apply applies a message of the main stream in one transaction with its sequence. A message that comes again changes
// nothing.
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
			_, err = tx.Exec(ctx, forgetSQL, e.StreamID)
		}
		return err
	})
}

// comment reads the words of a comment, which are stored before the event: no message means that they were erased.
func (t *Table) comment(ctx context.Context, sequence uint64, e *Event) (*Comment, error) {
	if e.Type != "post.imported.v1" {
		return nil, nil // not a comment
	}
	found, err := t.Personal.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && len(found.Data) == 0 {
		return nil, nil // erased
	}
	if err != nil {
		return nil, fmt.Errorf("read the words of event %d: %w", sequence, err)
	}
	var c Comment
	if err := json.Unmarshal(found.Data, &c); err != nil {
		return nil, fmt.Errorf("decode the words of event %d: %w", sequence, err)
	}
	return &c, nil
}

// authors is the namespace of the ids of authors.
var authors = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e04")

// authorID returns the id under which author.erased.v1 names the author of a comment: a UUID of version 5 of the
// integration's id, 16 bytes, and the partner's identifier.
func authorID(e *Event, c *Comment) uuid.UUID {
	integration := uuid.MustParse(strings.Split(e.Source, "/")[1]) // integrations/{id}/posts
	return uuid.NewSHA1(authors, append(integration[:], c.UUID...))
}

// Sequence returns that of the last message that was applied.
func (t *Table) Sequence(ctx context.Context) (sequence uint64, err error) {
	err = t.Pool.QueryRow(ctx, `SELECT sequence FROM search_position`).Scan(&sequence)
	return sequence, err
}
