package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"novelgate/aggregates/post"
	"novelgate/commands/staff"
)

// PostCommand is `novelgate post …`.
type PostCommand struct {
	Hide    PostHide    `cmd:"" help:"Hide a post from readers."`
	Restore PostRestore `cmd:"" help:"Make a hidden post visible again, also one that was hidden with all of its author's."`
	Show    PostShow    `cmd:"" help:"Show a post, hidden or not, with its author and history."`
}

// PostArg names a post.
type PostArg struct {
	PostID uuid.UUID `arg:"" name:"post-id" help:"Id of the post, as partners got it (postId)."`
}

// PostHide is `novelgate post hide`.
type PostHide struct {
	DatabaseFlags
	OutputFlags
	PostArg
	Reason string `required:"" help:"Why; the partner can read it."`
}

// Run hides the post.
func (c *PostHide) Run(in *invocation) error {
	return moderatePost(in, c.DatabaseFlags, c.OutputFlags, func(ctx context.Context, s *staff.Staff) (staff.Post, error) {
		return s.HidePost(ctx, c.PostID, c.Reason)
	})
}

// PostRestore is `novelgate post restore`.
type PostRestore struct {
	DatabaseFlags
	OutputFlags
	PostArg
	Reason string `required:"" help:"Why, for the history."`
}

// Run restores the post.
func (c *PostRestore) Run(in *invocation) error {
	return moderatePost(in, c.DatabaseFlags, c.OutputFlags, func(ctx context.Context, s *staff.Staff) (staff.Post, error) {
		return s.RestorePost(ctx, c.PostID, c.Reason)
	})
}

// PostShow is `novelgate post show`.
type PostShow struct {
	DatabaseFlags
	OutputFlags
	PostArg
}

// Run prints the post.
func (c *PostShow) Run(in *invocation) error {
	return moderatePost(in, c.DatabaseFlags, c.OutputFlags, func(ctx context.Context, s *staff.Staff) (staff.Post, error) {
		return s.Post(ctx, c.PostID)
	})
}

// moderatePost carries a command out and prints the post that it is about.
func moderatePost(
	in *invocation, db DatabaseFlags, out OutputFlags, command func(context.Context, *staff.Staff) (staff.Post, error),
) error {
	return db.withStaff(in, func(s *staff.Staff) error {
		p, err := command(in.ctx, s)
		if err != nil {
			return err
		}
		return out.print(in, p, func() { printPost(in, p) })
	})
}

func printPost(in *invocation, p staff.Post) {
	rows := [][]any{{"state", p.State}}
	if p.HiddenBy != nil {
		how := "by itself"
		if *p.HiddenBy == post.ByItsAuthor {
			how = "with all that its author had written by then"
		}
		rows = append(rows, []any{"hidden", how}, []any{"reason", *p.Reason})
	}
	rows = append(rows, []any{"novel", p.NovelID}, []any{"integration", p.IntegrationID},
		[]any{"received", moment(&p.ReceivedAt)})
	if p.Author != nil {
		rows = append(rows, []any{"author", p.Author.ExternalUUID}, []any{"username", p.Author.Username},
			[]any{"member", orDash(p.Author.MemberID)},
			[]any{"blocked", yesNo(p.Author.Blocked)}, []any{"content", fmt.Sprintf("%.200s", *p.Content)})
	} else {
		rows = append(rows, []any{"author", "erased"})
	}
	in.table([]any{"post", p.PostID}, rows)
	printHistory(in, p.History)
}

func printHistory(in *invocation, history []staff.HistoryEntry) {
	if len(history) == 0 {
		return
	}
	rows := make([][]any, len(history))
	for i, entry := range history {
		rows[i] = []any{entry.Version, moment(&entry.RecordedAt), entry.Type, entry.Actor}
	}
	fmt.Fprintln(in.stdout)
	in.table([]any{"VERSION", "RECORDED", "EVENT", "ACTOR"}, rows)
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}
