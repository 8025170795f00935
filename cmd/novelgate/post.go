package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"novelgate/aggregates/post"
	"novelgate/commands/staff"
)

type postCommand struct {
	Hide    postDecide `cmd:"" help:"Hide a post from readers. The partner can read the reason."`
	Restore postDecide `cmd:"" help:"Make a hidden post visible again, also one hidden with all posts of its author."`
	Show    postShow   `cmd:"" help:"Show a post, hidden or not, with its author and history."`
}

// PostArg names a post.
type PostArg struct {
	CommonFlags
	PostID uuid.UUID `arg:"" help:"Id of the post, the postId in responses to partners."`
}

type postDecide struct {
	PostArg
	RequiredReason
}

func (c *postDecide) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	decide := s.HidePost
	if env.verb == "restore" {
		decide = s.RestorePost
	}
	p, err := decide(ctx, c.PostID, c.Reason)
	return printPost(out, p, err)
}

type postShow struct{ PostArg }

func (c *postShow) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	p, err := s.Post(ctx, c.PostID)
	return printPost(out, p, err)
}

func printPost(out *output, p staff.Post, err error) error {
	if err != nil {
		return err
	}
	rows := [][]any{{"post", p.PostID}, {"state", p.State}}
	if p.HiddenBy != nil {
		how := "by itself"
		if *p.HiddenBy == post.WithAuthor {
			how = "with all that its author had written by then"
		}
		rows = append(rows, []any{"hidden", how}, []any{"reason", *p.Reason})
	}
	rows = append(rows, []any{"novel", p.NovelID}, []any{"integration", p.IntegrationID},
		[]any{"received", formatTime(&p.ReceivedAt)})
	if p.Author != nil {
		rows = append(rows, []any{"author", p.Author.ExternalUUID}, []any{"username", p.Author.Username},
			[]any{"member", orDash(p.Author.MemberID)},
			[]any{"blocked", yesNo(p.Author.Blocked)}, []any{"content", fmt.Sprintf("%.200s", *p.Content)})
	} else {
		rows = append(rows, []any{"author", "erased"})
	}
	return out.print(p, func() {
		out.table(rows)
		printHistory(out, p.History)
	})
}

func printHistory(out *output, history []staff.HistoryEntry) {
	if len(history) == 0 {
		return
	}
	rows := [][]any{{"VERSION", "RECORDED", "EVENT", "ACTOR"}}
	for _, entry := range history {
		rows = append(rows, []any{entry.Version, formatTime(&entry.RecordedAt), entry.Type, entry.Actor})
	}
	fmt.Fprintln(out.stdout)
	out.table(rows)
}
