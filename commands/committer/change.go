package committer

import (
	"bytes"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/author"
	"novelgate/aggregates/post"
	"novelgate/commands/request"
	"novelgate/events"
)

// Change is a command about a comment that is on record. With Edit it edits the comment, with Report it reports it,
// otherwise it withdraws the comment.
type Change struct {
	Comment string    // its idempotency key
	PostID  uuid.UUID // in place of a key of which there is no comment; uuid.Nil: none. Only in reports
	Edit    *post.Edit
	Report  *post.Report
	// AwaitComment fails with ErrParentUnknown if the comment is not on record.
	AwaitComment bool
}

// NewEditPost returns the command of a validated body about the comment with a key.
func NewEditPost(caller Caller, key, comment string, body *request.Edit) *Command {
	return &Command{
		Caller: caller, Key: key, Canonical: body.Canonical(comment), Change: &Change{Comment: comment, Edit: &body.Edit},
	}
}

// NewWithdrawPost returns the command to withdraw the comment with a key.
func NewWithdrawPost(caller Caller, key, comment string) *Command {
	return &Command{
		Caller: caller, Key: key, Canonical: request.WithdrawalCanonical(comment), Change: &Change{Comment: comment},
	}
}

// NewReportPost returns the command of a validated body about the comment of the caller with a key or, if there is none
// and the key is the id of a comment, about that.
func NewReportPost(caller Caller, key, comment string, body *request.Report) *Command {
	change := &Change{Comment: comment, Report: &body.Report}
	if id, err := uuid.Parse(comment); err == nil && id.String() == comment {
		change.PostID = id
	}
	return &Command{Caller: caller, Key: key, Canonical: body.Canonical(comment), Change: change}
}

// source returns the source of the event.
func (c *Change) source(integrationID uuid.UUID) string {
	switch {
	case c.Edit != nil:
		return events.PostEditsSource(integrationID)
	case c.Report != nil:
		return events.PostReportsSource(integrationID)
	default:
		return events.PostWithdrawalsSource(integrationID)
	}
}

// changed is the comment of a change.
type changed struct {
	post.Post

	slug    string // of its novel
	blocked bool   // its author
	visible bool   // to readers, as far as the read model has followed; only read for reports by post id
}

var (
	//go:embed read_comments.sql
	readCommentsSQL string
	//go:embed read_visible.sql
	readVisibleSQL string
)

// commentIDs returns the comments that a change may be about.
func (j *job) commentIDs() []uuid.UUID {
	ids := []uuid.UUID{events.PostID(j.Caller.IntegrationID, j.Change.Comment)}
	if j.Change.PostID != uuid.Nil {
		ids = append(ids, j.Change.PostID)
	}
	return ids
}

// queueComments queues the statements that read the comments of changes.
func queueComments(statements *pgx.Batch, st *state, jobs []*job) {
	var ids, byID []uuid.UUID
	var authorKeys []string
	for _, j := range jobs {
		if !j.isChange() {
			continue
		}
		for _, id := range j.commentIDs() {
			if st.comments[id] == nil {
				st.comments[id] = &changed{}
				ids, authorKeys = append(ids, id), append(authorKeys, j.Caller.AuthorKey)
			}
		}
		if j.Change.PostID != uuid.Nil {
			byID = append(byID, j.Change.PostID)
		}
	}
	if len(ids) == 0 {
		return
	}
	statements.Queue(readCommentsSQL, ids, authorKeys).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id, integration pgtype.UUID
			var imported, edited events.Stored
			var editedType, slug pgtype.Text
			var version int
			var withdrawn, blocked bool
			if err := rows.Scan(&id, &integration, &imported.Type, &imported.Data, &imported.Personal, &version, &withdrawn,
				&editedType, &edited.Data, &blocked, &slug); err != nil {
				return fmt.Errorf("scan comment: %w", err)
			}
			imported.Integration = uuid.NullUUID{UUID: integration.Bytes, Valid: integration.Valid}
			c := &changed{slug: slug.String, blocked: blocked}
			list := []events.Stored{imported}
			if edited.Type = editedType.String; editedType.Valid {
				list = append(list, edited)
			}
			for _, stored := range list {
				event, err := events.Decode(stored)
				if err != nil {
					return err
				}
				c.Post = c.Apply(event, time.Time{})
			}
			c.Version, c.Withdrawn = version, withdrawn
			st.comments[id.Bytes] = c
		}
		return rows.Err()
	})
	if len(byID) == 0 {
		return
	}
	// A statement of its own, because it uses tables of projections that follow, which others may lock.
	statements.Queue(readVisibleSQL, byID).Query(func(rows pgx.Rows) error {
		visible, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		for _, id := range visible {
			st.comments[id].visible = true
		}
		return err
	})
}

// decideChange decides a change, on the effects of the earlier commands of the batch.
func (b *batch) decideChange(st *state, j *job) (Result, error) {
	id, c := st.commentOf(j)
	if d, ok := st.deliveries[j.key]; ok {
		return b.replayChange(j, d, id, c)
	}
	if first, ok := st.first[j.key]; ok {
		if firstID, _ := st.commentOf(first); firstID != id {
			return Result{}, ErrKeyMisused
		}
		result := first.result
		result.Replayed, result.Mismatch = true, !bytes.Equal(j.Canonical, first.Canonical)
		return result, nil
	}
	if j.Change.AwaitComment && !c.Exists() {
		return Result{}, ErrParentUnknown
	}
	result := Result{PostID: id, Slug: c.slug}
	event, err := j.Change.decide(j.Caller.IntegrationID, c)
	if err != nil || event == nil {
		return result, err
	}
	switch e := event.(type) {
	case events.PostEdited:
		result.Superseded = isSuperseded(e)
	case events.PostWithdrawn:
		st.withdrawn = append(st.withdrawn, id)
	default: // a report
	}
	c.Post = c.Apply(event, time.Time{})
	st.append(j, events.PostStream, id, c.Version, j.key.source, event)
	st.first[j.key] = j
	return result, nil
}

// decide returns the event of the change; nil when nothing changes.
func (c *Change) decide(by uuid.UUID, on *changed) (events.Event, error) {
	switch {
	case c.Edit != nil:
		edited, err := on.Edit(by, *c.Edit)
		if err == nil {
			err = author.Author{Blocked: on.blocked}.Comment()
		}
		return edited, err
	case c.Report != nil:
		return on.Report(by, on.visible, *c.Report)
	default:
		return on.Withdraw(by)
	}
}

func isSuperseded(e events.PostEdited) bool { return !e.NewText && !e.NewChapter }

// commentOf returns the comment of a change: that of the caller with the key, otherwise that with the id.
func (st *state) commentOf(j *job) (uuid.UUID, *changed) {
	ids := j.commentIDs()
	id := ids[0]
	if !st.comments[id].Exists() {
		id = ids[len(ids)-1]
	}
	return id, st.comments[id]
}

// replayChange answers a retry of a recorded change.
func (b *batch) replayChange(j *job, d *delivery, id uuid.UUID, c *changed) (Result, error) {
	if d.streamID != id {
		return Result{}, ErrKeyMisused
	}
	result := Result{PostID: id, Slug: c.slug}
	if j.Change.Edit != nil {
		edited, err := events.DecodeAs[events.PostEdited](d.stored)
		if err != nil {
			return Result{}, err
		}
		result.Superseded = isSuperseded(edited)
	}
	if !b.isOwn(j, d) {
		result.Replayed, result.Mismatch = true, d.fingerprint.Differs(d.salt, j.Canonical)
		result.Original = d.original
	}
	return result, nil
}

// queueErase queues the erasure of the comments that the attempt withdraws, after the append of their events.
func (st *state) queueErase(statements *pgx.Batch) {
	if len(st.withdrawn) > 0 {
		statements.Queue(`SELECT erase_post_events($1)`, st.withdrawn)
	}
}
