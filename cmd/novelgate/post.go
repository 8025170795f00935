package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"novelgate/aggregates/post"
	"novelgate/commands/staff"
	"novelgate/internal/title"
)

type postCommand struct {
	Hide           postDecision `cmd:"" help:"Hide a post from readers. The partner can read the reason."`
	Restore        postDecision `cmd:"" help:"Make a hidden post visible again, also one hidden with all posts of its author."`
	DismissReports postDecision `cmd:"" help:"Find the reports of a post unfounded. The reporting partners can read the reason."`
	Show           PostArg      `cmd:"" help:"Show a post, hidden or not, with its author and history."`
}

// PostArg names a post.
type PostArg struct {
	StaffFlags
	PostID uuid.UUID `arg:"" help:"Id of the post, the postId in responses to partners."`
}

type postDecision struct {
	PostArg
	RequiredReason
}

func (c *postCommand) run(ctx context.Context, env *environment) error {
	return env.answer(ctx, func(s staffService) (result, error) {
		switch env.verb {
		case "hide":
			return shownPost(s.HidePost(ctx, c.Hide.PostID, c.Hide.Reason))
		case "restore":
			return shownPost(s.RestorePost(ctx, c.Restore.PostID, c.Restore.Reason))
		case "dismiss-reports":
			return shownPost(s.DismissReports(ctx, c.DismissReports.PostID, c.DismissReports.Reason))
		default: // show
			return shownPost(s.Post(ctx, c.Show.PostID))
		}
	})
}

func shownPost(p staff.Post, err error) (result, error) {
	return result{p, func(env *environment) { printPost(env, p) }}, err
}

func printPost(env *environment, p staff.Post) {
	rows := [][]any{{"post", p.PostID}, {"state", p.State}}
	if p.HiddenBy != nil {
		how := "by itself"
		if *p.HiddenBy == post.WithAuthor {
			how = "with all that its author had written by then"
		}
		rows = append(rows, []any{"hidden", how}, []any{"reason", *p.Reason})
	}
	rows = append(rows, []any{"novel", named(p.NovelTitle, p.NovelID)},
		[]any{"integration", named(p.Integration, p.IntegrationID)},
		[]any{"received", formatTime(&p.ReceivedAt)})
	if p.EditedAt != nil {
		rows = append(rows, []any{"edited", formatTime(p.EditedAt)})
	}
	if p.Reports > 0 {
		rows = append(rows, []any{"reports", p.Reports})
	}
	switch {
	case p.Author != nil:
		rows = append(rows, []any{"author", p.Author.ExternalUUID}, []any{"username", p.Author.Username},
			[]any{"member", orDash(p.Author.MemberID)},
			[]any{"blocked", yesNo(p.Author.Blocked)}, []any{"content", title.Clip(*p.Content, 200)})
	case p.Withdrawn:
		rows = append(rows, []any{"author", "withdrawn by the partner"})
	default:
		rows = append(rows, []any{"author", "erased"})
	}
	env.table(rows...)
	printHistory(env, p.History)
}

// named returns an id with the name beside it, if it has one.
func named(name string, id any) string {
	if name == "" {
		return fmt.Sprint(id)
	}
	return fmt.Sprintf("%s (%v)", name, id)
}

// printHistory prints who did what, when and why.
func printHistory(env *environment, history []staff.HistoryEntry) {
	if len(history) == 0 {
		return
	}
	rows := [][]any{{"VERSION", "RECORDED", "EVENT", "ACTOR", "SUMMARY"}}
	for _, entry := range history {
		rows = append(rows, []any{
			entry.Version, formatTime(&entry.RecordedAt), entry.Type, named(entry.ActorName, entry.Actor),
			title.Clip(entry.Summary, 200),
		})
	}
	fmt.Fprintln(env.stdout)
	env.table(rows...)
}
