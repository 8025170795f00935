package committer

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/request"
	"novelgate/events"
)

// Refusals that do not come from an aggregate.
var (
	// ErrKeyMisused refuses an upsert or a change whose idempotency key was used for another title or comment.
	ErrKeyMisused = errors.New("the idempotency key was used for another title or comment")
	// ErrParentUnknown refuses a reply with AwaitParent whose parent, or a change with AwaitComment whose comment,
	// is not on record.
	ErrParentUnknown = errors.New("the parent of the reply is not on record")
	// ErrUnderReview is the post.ErrNovelNotFound of an integration that may create novels, but not by comments.
	ErrUnderReview = fmt.Errorf("%w: the integration is under review", post.ErrNovelNotFound)
	// ErrQueueFull is returned at once when too many commands wait. Nothing was written.
	ErrQueueFull = errors.New("too many commands are waiting")
	// ErrClosed is returned once Close was called. Nothing was written.
	ErrClosed = errors.New("the service is shutting down")
	// ErrUnavailable is returned when the command could not be committed in time, for instance because the database
	// could not be reached or another session kept the title locked. Nothing was written.
	ErrUnavailable = errors.New("the database is not available")
	// ErrOutcomeUnknown is returned when the answer to a commit was lost or late. The command may have been executed. A
	// retry with the same key returns the result.
	ErrOutcomeUnknown = errors.New("the outcome of the commit is unknown")
)

// Caller is the integration that sent a command, with its rights and limits.
type Caller struct {
	IntegrationID   uuid.UUID
	KeyID           uuid.UUID
	CanCreateNovels bool   // the integration has the Create novels capability
	Review          bool   // new novels of the integration wait for staff
	PostsPerMinute  int    // limit of comments
	NovelsPerMinute int    // limit of creations of novels
	LinesPerMinute  int    // limit of lines of bulk requests
	AuthorKey       string // for events.AuthorID
	RequestID       string
	TraceParent     string // W3C trace context; "" for none
}

// Command is the upsert of a novel, the import of a comment, or a change of one: exactly one of Fields, Comment and
// Change is set.
type Command struct {
	Caller      Caller
	Key         string // idempotency key
	Title       string // of the novel, cleaned; "" in a change
	FoldedTitle string
	Canonical   []byte // the normalised command, to distinguish a retry from a reuse of its key
	// Bulk: the command is a line of a bulk request. It waits until no live command does, and has a limit of its own.
	Bulk bool

	Fields  *novel.Fields // of an upsert
	Comment *Comment
	Change  *Change
}

// Comment is the comment of a command.
type Comment struct {
	post.Import
	ParentKey   *string // idempotency key of the parent; nil for a top-level comment
	AwaitParent bool    // refuse a reply whose parent is not on record instead of storing it as a top-level comment
}

// NewUpsertNovel returns the command of a validated body.
func NewUpsertNovel(caller Caller, key string, body *request.Novel) *Command {
	return &Command{
		Caller: caller, Key: key, Title: body.Title, FoldedTitle: body.FoldedTitle, Canonical: body.Canonical(),
		Fields: &body.Fields,
	}
}

// NewImportPost returns the command of a validated body.
func NewImportPost(caller Caller, key string, body *request.Post) *Command {
	comment := &Comment{ParentKey: body.ParentKey, Import: post.Import{
		IntegrationID: caller.IntegrationID,
		Comment:       events.Comment{ExternalUUID: body.AuthorUUID, Username: body.Username, Content: body.Content},
		WrittenAt:     body.WrittenAt,
		NamesParent:   body.ParentKey != nil,
	}}
	if body.Chapter != nil {
		comment.ChapterNumber = jsontext.Value(*body.Chapter)
	}
	return &Command{
		Caller: caller, Key: key, Title: body.Title, FoldedTitle: body.FoldedTitle, Canonical: body.Canonical(),
		Comment: comment,
	}
}

// Result is the result of a command.
type Result struct {
	Outcome      novel.Outcome // only of an upsert
	NovelID      uuid.UUID     // only of an upsert
	Slug         string        // of the novel
	PostID       uuid.UUID     // of a comment or a change
	ThreadID     uuid.UUID     // only of a comment
	ParentPostID *uuid.UUID    // only of a comment; nil for a top-level one
	Superseded   bool          // an edit that changes nothing, because a later one is on record
	Replayed     bool          // the key was used before; this command changed nothing (also set with novel.ErrRejected)
	Mismatch     bool          // … and the command differs from the original
	Original     Original
}

// Original is the recorded delivery that a command repeats. It is zero when that delivery is in the same batch.
type Original struct {
	RequestID string
	EventType string
}

// deliveryKey identifies a delivery: CloudEvents source and id.
type deliveryKey struct{ id, source string }

// job is a command in the queue.
type job struct {
	*Command
	queue  *queue
	key    deliveryKey
	author uuid.UUID         // of a comment
	span   trace.SpanContext // of its request; zero without a Tracer

	result Result
	err    error
	done   chan struct{} // closed when result and err are final
}

func newJob(cmd *Command, q *queue) *job {
	j := &job{Command: cmd, queue: q, key: deliveryKey{id: cmd.Key}, done: make(chan struct{})}
	switch {
	case j.isComment():
		j.key.source = events.PostsSource(cmd.Caller.IntegrationID)
		j.author = events.AuthorID(cmd.Caller.AuthorKey, cmd.Comment.Comment.ExternalUUID)
	case j.isChange():
		j.key.source = j.Change.source(cmd.Caller.IntegrationID)
	default:
		j.key.source = events.NovelsSource(cmd.Caller.IntegrationID)
	}
	return j
}

func (j *job) isComment() bool { return j.Comment != nil }

func (j *job) isChange() bool { return j.Change != nil }

// mayCreate reports whether the job may create a novel with an unknown title.
func (j *job) mayCreate() bool {
	return j.Fields != nil || j.isComment() && post.CreatesNovel(j.Caller.CanCreateNovels, j.Caller.Review)
}
