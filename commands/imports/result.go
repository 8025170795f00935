package imports

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Status is the outcome of a line.
type Status string

// Outcomes.
const (
	Created   Status = "created"
	Updated   Status = "updated"
	Unchanged Status = "unchanged" // an upsert of a novel that the integration does not own
	Replayed  Status = "replayed"  // the key was used before
	Failed    Status = "failed"
)

// Warning is a possible mistake in a line that did not fail.
type Warning string

// Warnings.
const (
	ParentNotFound Warning = "parent_not_found" // a reply that was stored top-level
	UnknownMember  Warning = "unknown_member"   // the body has members that are ignored: Result.Unknown
)

// Result is the outcome of a line for partners.
type Result struct {
	Line           int64               `json:"line"` // the first line is 1
	Operation      ratelimit.Operation `json:"operation,omitzero"`
	IdempotencyKey string              `json:"idempotencyKey,omitzero"`
	Status         Status              `json:"status"`
	Canonical      bool                `json:"canonical,omitzero"` // of an upsert
	Mismatch       bool                `json:"mismatch,omitzero"`  // a replay whose command differs from the original
	PostID         uuid.UUID           `json:"postId,omitzero"`
	ThreadID       uuid.UUID           `json:"threadId,omitzero"`
	ParentPostID   *uuid.UUID          `json:"parentPostId,omitzero"`
	NovelID        uuid.UUID           `json:"novelId,omitzero"`
	Slug           string              `json:"slug,omitzero"`
	URL            string              `json:"url,omitzero"`
	Warnings       []Warning           `json:"warnings,omitempty"`
	Unknown        []string            `json:"unknownMembers,omitempty"` // members of the body that are ignored
	Problem        jsontext.Value      `json:"problem,omitzero"`
}

// encode returns the outcome as a line of NDJSON.
func (r *Result) encode() ([]byte, error) {
	encoded, err := json.Marshal(r, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("encode the outcome of line %d: %w", r.Line, err)
	}
	return encoded, nil
}

// decodeResult reads a line that encode has written.
func decodeResult(encoded []byte) (r Result, err error) {
	if err := json.Unmarshal(encoded, &r); err != nil {
		return r, fmt.Errorf("decode an outcome: %w", err)
	}
	return r, nil
}

// failure returns the outcome of a line that failed.
func failure(number int64, line *Line, requestID string, p *problem.Error) Result {
	return Result{
		Line: number, Operation: line.Operation, IdempotencyKey: line.Key, Status: Failed, Problem: p.JSON(requestID),
	}
}

// resultOf returns the outcome of a line, given the result of its command. requestID is that of the command.
func resultOf(
	number int64, line *Line, requestID string, got *committer.Result, addresses httpkit.Addresses,
) Result {
	own := got.Replayed && got.Original.RequestID == requestID // the original is an earlier attempt at this line
	r := Result{
		Line: number, Operation: line.Operation, IdempotencyKey: line.Key, Status: Unchanged,
		Mismatch: got.Mismatch && !own, Unknown: line.Unknown(),
	}
	switch {
	case got.Replayed && !own:
		r.Status = Replayed
	case line.Post != nil, got.Outcome == novel.Created, got.Original.EventType == (events.NovelCreated{}).Type():
		r.Status = Created
	case own, got.Outcome == novel.Updated:
		r.Status = Updated
	}
	if line.Post == nil {
		r.NovelID, r.Slug, r.URL = got.NovelID, got.Slug, addresses.Novel(got.Slug)
		r.Canonical = got.Outcome == novel.Canonical
		return r
	}
	r.PostID, r.ThreadID, r.ParentPostID, r.URL = got.PostID, got.ThreadID, got.ParentPostID,
		addresses.Post(got.Slug, got.PostID)
	if r.Status == Created && line.Post.ParentKey != nil && got.ParentPostID == nil {
		r.Warnings = []Warning{ParentNotFound}
	}
	return r
}

// warns reports whether an outcome has a warning.
func (r *Result) warns(warning Warning) bool {
	return slices.Contains(r.Warnings, warning) || warning == UnknownMember && len(r.Unknown) > 0
}
