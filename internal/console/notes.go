package console

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
)

// note is a note of staff for each other.
type note struct {
	ID      int64
	At      time.Time
	By      string
	Content string
}

// notes returns the latest notes about a subject, the latest first.
func (c *Console) notes(ctx context.Context, subject uuid.UUID) ([]note, error) {
	return database.Collect(ctx, c.Pool, "notes", pgx.RowToStructByPos[note], `SELECT note_id, written_at, name, content
FROM console_notes WHERE subject_id = $1 ORDER BY note_id DESC LIMIT 50`, subject)
}

// note adds a note, or removes one.
func (c *Console) note(ctx context.Context, v *visit) (*outcome, error) {
	subject, err := selectedOne(v, "subject")
	if err != nil {
		return nil, err
	}
	if id := v.PostForm.Get("remove"); id != "" {
		_, err := c.Pool.Exec(ctx, `DELETE FROM console_notes WHERE subject_id = $1 AND note_id::text = $2`, subject, id)
		if err != nil {
			return nil, fmt.Errorf("remove a note: %w", err)
		}
		return &outcome{notice: "The note is removed."}, nil
	}
	const most = 2000
	text := strings.TrimSpace(v.PostForm.Get("note"))
	if n := utf8.RuneCountInString(text); n < 1 || n > most {
		return nil, problem.InvalidField("note", fmt.Sprintf("must have 1 to %d characters", most))
	}
	if auth.HasKey(text) {
		return nil, problem.InvalidField("note", "has an API key in it, which all staff and auditors would read")
	}
	if err := c.addNote(ctx, v, subject, text); err != nil {
		return nil, err
	}
	return &outcome{notice: "The note is added."}, nil
}

// addNoteSQL adds one note when a form is sent twice, and affects no row if the form had another note before.
const addNoteSQL = `INSERT INTO console_notes AS n (form_id, subject_id, name, content) VALUES ($1, $2, $3, $4)
ON CONFLICT (form_id) DO UPDATE SET content = n.content
WHERE (n.subject_id, n.name, n.content) = (excluded.subject_id, excluded.name, excluded.content)`

func (c *Console) addNote(ctx context.Context, v *visit, subject uuid.UUID, text string) error {
	added, err := c.Pool.Exec(ctx, addNoteSQL, v.once, subject, v.user.Name, text)
	switch {
	case err != nil:
		return fmt.Errorf("add a note: %w", err)
	case added.RowsAffected() == 0:
		return errOtherForm
	default:
		return nil
	}
}

// Forget deletes what the console keeps about erased persons: notes about them and about comments that were withdrawn
// or erased, and, of everybody, the outcome of the latest action.
func Forget(ctx context.Context, db database.DB) error {
	batch := &pgx.Batch{}
	batch.Queue(forgetNotesSQL)
	batch.Queue(`UPDATE console_sessions SET notice = NULL, undo = NULL WHERE notice IS NOT NULL OR undo IS NOT NULL`)
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("forget what the console keeps: %w", err)
	}
	return nil
}

const forgetNotesSQL = `DELETE FROM console_notes n
WHERE EXISTS (SELECT FROM posts p WHERE p.post_id = n.subject_id AND p.author_id IS NULL)
   OR EXISTS (SELECT FROM events e WHERE e.stream_id = n.subject_id AND e.event_type = 'author.erased.v1')`

// Run carries out the rebuilds that staff start, until ctx ends. Once a minute it notes the latency of commands, and
// deletes what is over: sessions, claims, outcomes of a quarter of an hour ago, and notes about what was erased.
func (c *Console) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { c.rebuilds.serve(ctx, c) })
	for more := true; more; more = eventlog.Sleep(ctx, time.Minute) {
		batch := &pgx.Batch{}
		batch.Queue(`DELETE FROM console_sessions WHERE ends_at < $1`, c.Kit.Now())
		batch.Queue(`DELETE FROM console_claims WHERE ends_at < $1`, c.Kit.Now())
		batch.Queue(`UPDATE console_sessions SET notice = NULL, undo = NULL, changed_at = NULL
WHERE changed_at < statement_timestamp() - interval '15 minutes'`)
		batch.Queue(forgetNotesSQL)
		if err := c.Pool.SendBatch(ctx, batch).Close(); err != nil && ctx.Err() == nil {
			c.Kit.Logger.WarnContext(ctx, "the console has not been tidied", slog.Any("error", err))
		}
		if err := c.samples.add(c.latency, c.Kit.Now()); err != nil {
			c.Kit.Logger.WarnContext(ctx, "the latency of commands is not noted", slog.Any("error", err))
		}
	}
}
