package console

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"novelgate/commands/staff"
	"novelgate/internal/problem"
)

func (c *Console) queuePages() []page {
	return []page{
		{path: "/counts", show: c.countsAsJSON},
	}
}

// countsAsJSON is for the script, which keeps the counts of an open page up to date.
func (c *Console) countsAsJSON(ctx context.Context, v *visit) (*view, error) {
	n, err := c.counts(ctx)
	if err != nil {
		return nil, err
	}
	v.writer.Header().Set("Content-Type", "application/json")
	return nil, json.MarshalWrite(v.writer, n)
}

// takeBack undoes the latest decision of the session.
func (c *Console) takeBack(ctx context.Context, v *visit) (*outcome, error) {
	const reason = "The decision before was a mistake."
	u := v.session.undo
	if u == nil {
		return nil, problem.New(problem.CodeConflict, "There is nothing to undo.")
	}
	done := &outcome{notice: "Undone: " + u.Label + ".", to: u.To}
	switch {
	case u.Author != nil:
		decide := v.command("").UnblockAuthor
		if u.Block {
			decide = v.command("").BlockAuthor
		}
		if _, err := decide(ctx, *u.Author, reason); isNew(err) != nil {
			return nil, isNew(err)
		}
	case len(u.Posts) > 0:
		decided, err := v.command("").DecidePosts(ctx, u.Decision, u.Posts, reason)
		if err != nil {
			return nil, err
		}
		done.notice = outcomes(done.notice, decided)
	default:
		done.notice = ""
	}
	return done, c.sessions.forget(ctx, v.session, "undo")
}

// isNew returns the error of a command, unless the form was sent twice and the first has carried it out.
func isNew(err error) error {
	if _, replayed := errors.AsType[*staff.ReplayedError](err); replayed {
		return nil
	}
	return err
}

// outcomes adds to a text why decisions about some comments were refused.
func outcomes(text string, decided staff.Decisions) string {
	refused, why := 0, ""
	for _, item := range decided.Items {
		if item.Problem != nil {
			refused, why = refused+1, item.Problem.Detail
		}
	}
	if refused == 0 {
		return text
	}
	return fmt.Sprintf("%s Of these, %s not changed. The last reason: %s", text,
		count(refused, "comment was", "comments were"), why)
}
