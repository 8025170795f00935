package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
)

type authorCommand struct {
	Link struct {
		AuthorArg
		Member string `arg:"" help:"The host platform's identifier of the member."`
		OptionalReason
	} `cmd:"" help:"Attribute an author's comments, old and new, to a member of the platform."`
	Unlink struct {
		AuthorArg
		OptionalReason
	} `cmd:"" help:"Attribute an author's comments to the partner platform again."`
	Block        authorDecision `cmd:"" help:"Refuse new comments of an author."`
	Unblock      authorDecision `cmd:"" help:"Let a blocked author comment again."`
	HidePosts    authorDecision `cmd:"" help:"Hide an author's posts received up to now."`
	RestorePosts authorDecision `cmd:"" help:"Restore an author's posts, unless hidden one by one."`
	Erase        authorErase    `cmd:"" help:"Erase an author's identity and comments, also from the log."`
	Show         AuthorArg      `cmd:"" help:"Show an author with the decisions about them."`
	List         struct {
		IntegrationArg
		RowsFlag
		Linked  *string `enum:"true,false" placeholder:"true|false" help:"Only linked (true) or unlinked authors (false)."`
		Blocked *string `enum:"true,false" placeholder:"true|false" help:"Only blocked (true) or unblocked authors (false)."`
	} `cmd:"" help:"List the authors of an integration."`
}

// AuthorArg names an author.
type AuthorArg struct {
	IntegrationArg
	UUID string `arg:"" help:"The partner's identifier of the author, exactly as in comments."`
}

type authorDecision struct {
	AuthorArg
	RequiredReason
}

type authorErase struct {
	AuthorArg
	RequiredReason
	Vacuum bool `help:"Also remove the erased data from the files and statistics of the tables (VACUUM), after the projections have applied the erasure. This is slow for large tables."`
}

func (*authorErase) Help() string {
	return "This cannot be undone. Repeat it to erase later comments."
}

var authorColumns = columns[staff.Author]{
	[]any{"UUID", "NAME", "MEMBER", "BLOCKED", "POSTS HIDDEN UNTIL", "FIRST SEEN"},
	func(a staff.Author) []any {
		return []any{
			a.ExternalUUID, orDash(a.DisplayName), orDash(a.MemberID), yesNo(a.Blocked), formatTime(a.PostsHiddenUntil),
			formatTime(a.FirstSeenAt),
		}
	},
}

func (c *authorCommand) run(ctx context.Context, env *environment) error {
	return env.answer(ctx, func(s *staff.Staff) (result, error) {
		decide := func(
			a AuthorArg, reason string, decision func(context.Context, staff.AuthorName, string) (staff.Author, error),
		) (result, error) {
			name, err := a.name(ctx, s)
			if err != nil {
				return result{}, err
			}
			return shownAuthor(decision(ctx, name, reason))
		}
		switch env.verb {
		case "link":
			return decide(c.Link.AuthorArg, c.Link.Reason,
				func(ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error) {
					return s.LinkAuthor(ctx, name, c.Link.Member, reason)
				})
		case "unlink":
			return decide(c.Unlink.AuthorArg, c.Unlink.Reason, s.UnlinkAuthor)
		case "block":
			return decide(c.Block.AuthorArg, c.Block.Reason, s.BlockAuthor)
		case "unblock":
			return decide(c.Unblock.AuthorArg, c.Unblock.Reason, s.UnblockAuthor)
		case "hide-posts":
			return decide(c.HidePosts.AuthorArg, c.HidePosts.Reason, s.HideAuthorPosts)
		case "restore-posts":
			return decide(c.RestorePosts.AuthorArg, c.RestorePosts.Reason, s.RestoreAuthorPosts)
		case "erase":
			return c.Erase.erase(ctx, env, s)
		case "show":
			return decide(c.Show, "", func(ctx context.Context, name staff.AuthorName, _ string) (staff.Author, error) {
				return s.AuthorWithHistory(ctx, name)
			})
		default: // list
			i, err := s.Integration(ctx, c.List.Integration)
			if err != nil {
				return result{}, err
			}
			list, err := s.ListAuthors(ctx, staff.AuthorFilter{
				IntegrationID: i.ID, Linked: choice(c.List.Linked), Blocked: choice(c.List.Blocked),
				Limit: c.List.Limit.readLimit(),
			})
			return authorColumns.list(within(env, c.List.Limit, list), err)
		}
	})
}

func (a AuthorArg) name(ctx context.Context, s *staff.Staff) (staff.AuthorName, error) {
	i, err := s.Integration(ctx, a.Integration)
	return staff.AuthorName{IntegrationID: i.ID, ExternalUUID: a.UUID}, err
}

func shownAuthor(a staff.Author, err error) (result, error) {
	return result{a, func(env *environment) {
		authorColumns.print(env, a)
		printHistory(env, a.History)
	}}, err
}

// choice parses "true" or "false"; nil stays nil.
func choice(text *string) *bool {
	if text == nil {
		return nil
	}
	return new(*text == "true")
}

// erase erases the author. It warns on standard error of places that still have the erased data.
func (c *authorErase) erase(ctx context.Context, env *environment, s *staff.Staff) (result, error) {
	name, err := c.name(ctx, s)
	if err != nil {
		return result{}, err
	}
	erased, err := s.EraseAuthor(ctx, name, c.Reason)
	if err != nil {
		return result{}, err
	}
	if err := c.finish(ctx, env, s, erased.AuthorID); err != nil {
		return result{}, fmt.Errorf("the author is erased, but %w", err)
	}
	return result{erased, func(env *environment) {
		env.table(
			[]any{"author", erased.AuthorID},
			[]any{"comments", erased.Comments},
			[]any{"decisions", erased.Decisions},
			[]any{"erased", formatTime(&erased.ErasedAt)},
		)
		if !c.Vacuum {
			fmt.Fprintln(env.stdout,
				"The files and statistics of the tables keep the erased data until they are vacuumed: use --vacuum, or see "+
					"docs/security.md.")
		}
	}}, nil
}

// finish warns of unfinished rebuilds and stopped projections, and vacuums if --vacuum is set.
func (c *authorErase) finish(ctx context.Context, env *environment, s *staff.Staff, authorID uuid.UUID) error {
	unfinished, err := s.UnfinishedRebuilds(ctx)
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		fmt.Fprintf(env.stderr,
			"An unfinished rebuild of %[1]s keeps the erased data: `novelgate projection rebuild %[1]s` finishes it, "+
				"`novelgate projection discard %[1]s` drops it.\n", name)
	}
	stopped, err := s.StoppedBefore(ctx, authorID)
	if err != nil {
		return err
	}
	for _, name := range stopped {
		fmt.Fprintf(env.stderr,
			"The projection %[1]s has stopped and shows what was erased until it goes on: `novelgate projection list` says "+
				"why, `novelgate projection retry %[1]s` tries again.\n", name)
	}
	if c.Vacuum {
		return vacuumErased(ctx, s, authorID)
	}
	return nil
}

// applyTimeout is how long --vacuum waits for the projections.
const applyTimeout = 30 * time.Second

// vacuumSQL removes dead rows and the values that ANALYZE sampled. INDEX_CLEANUP ON also cleans indexes with few dead
// rows, because index entries have identifiers. ANALYZE samples the tables again. pg_statistic comes last, to remove
// the old samples from it. A role without permission for pg_statistic gets a warning.
const vacuumSQL = `VACUUM (INDEX_CLEANUP ON, ANALYZE)
    events, posts, authors, author_decisions, pg_catalog.pg_statistic`

// vacuumErased removes an erased author's data from files and statistics. It first waits until the projections have
// applied the erasure: vacuum removes only deleted rows.
func vacuumErased(ctx context.Context, s *staff.Staff, authorID uuid.UUID) error {
	waiting, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	err := s.AwaitErased(waiting, authorID)
	if pending, ok := errors.AsType[*staff.NotAppliedError](err); ok {
		return fmt.Errorf("the files were not freed, because these projections have not applied it yet: %s. "+
			"Repeat the command with --vacuum once `novelgate projection list` shows them up to date",
			strings.Join(pending.Projections, ", "))
	}
	if err == nil {
		_, err = s.Pool.Exec(ctx, vacuumSQL)
	}
	if err != nil {
		return fmt.Errorf("the files were not freed: %w", err)
	}
	return nil
}
