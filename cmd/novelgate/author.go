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
	Link         authorLink   `cmd:"" help:"Attribute an author's comments, old and new, to a member of the platform."`
	Unlink       authorUnlink `cmd:"" help:"Attribute an author's comments to the partner platform again."`
	Block        authorDecide `cmd:"" help:"Refuse new comments of an author."`
	Unblock      authorDecide `cmd:"" help:"Let a blocked author comment again."`
	HidePosts    authorDecide `cmd:"" help:"Hide an author's posts received up to now."`
	RestorePosts authorDecide `cmd:"" help:"Restore an author's posts, unless hidden one by one."`
	Erase        authorErase  `cmd:"" help:"Erase an author's identity and comments, also from the log."`
	Show         authorShow   `cmd:"" help:"Show an author with the decisions about them."`
	List         authorList   `cmd:"" help:"List the authors of an integration."`
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

// AuthorArg names an author.
type AuthorArg struct {
	IntegrationArg
	UUID string `arg:"" help:"The partner's identifier of the author, exactly as in comments."`
}

// author opens the database and finds the author's integration.
func (a AuthorArg) author(ctx context.Context, env *env) (
	name staff.AuthorName, s *staff.Staff, out *output, err error,
) {
	i, s, out, err := a.open(ctx, env)
	return staff.AuthorName{IntegrationID: i.ID, ExternalUUID: a.UUID}, s, out, err
}

type authorLink struct {
	AuthorArg
	Member string `arg:"" help:"The host platform's identifier of the member."`
	OptionalReason
}

func (c *authorLink) Run(ctx context.Context, env *env) error {
	name, s, out, err := c.author(ctx, env)
	if err != nil {
		return err
	}
	linked, err := s.LinkAuthor(ctx, name, c.Member, c.Reason)
	return authorColumns.print(out, linked, err)
}

type authorUnlink struct {
	AuthorArg
	OptionalReason
}

func (c *authorUnlink) Run(ctx context.Context, env *env) error {
	name, s, out, err := c.author(ctx, env)
	if err != nil {
		return err
	}
	unlinked, err := s.UnlinkAuthor(ctx, name, c.Reason)
	return authorColumns.print(out, unlinked, err)
}

type authorDecide struct {
	AuthorArg
	RequiredReason
}

func (c *authorDecide) Run(ctx context.Context, env *env) error {
	name, s, out, err := c.author(ctx, env)
	if err != nil {
		return err
	}
	decided, err := map[string]func(context.Context, staff.AuthorName, string) (staff.Author, error){
		"block": s.BlockAuthor, "unblock": s.UnblockAuthor,
		"hide-posts": s.HideAuthorPosts, "restore-posts": s.RestoreAuthorPosts,
	}[env.verb](ctx, name, c.Reason)
	return authorColumns.print(out, decided, err)
}

type authorShow struct{ AuthorArg }

func (c *authorShow) Run(ctx context.Context, env *env) error {
	name, s, out, err := c.author(ctx, env)
	if err != nil {
		return err
	}
	a, err := s.AuthorWithHistory(ctx, name)
	if err != nil {
		return err
	}
	return out.print(a, func() {
		authorColumns.table(out.streams, a)
		printHistory(out, a.History)
	})
}

type authorList struct {
	IntegrationArg
	RowsFlag
	Linked  *string `enum:"true,false" placeholder:"true|false" help:"Only linked (true) or unlinked authors (false)."`
	Blocked *string `enum:"true,false" placeholder:"true|false" help:"Only blocked (true) or unblocked authors (false)."`
}

func (c *authorList) Run(ctx context.Context, env *env) error {
	i, s, out, err := c.open(ctx, env)
	if err != nil {
		return err
	}
	list, err := s.ListAuthors(ctx, staff.AuthorFilter{
		IntegrationID: i.ID, Linked: choice(c.Linked), Blocked: choice(c.Blocked), Limit: c.Limit.readLimit(),
	})
	return authorColumns.printList(out, shown(out.streams, list, c.Limit), err)
}

// choice parses "true" or "false"; nil stays nil.
func choice(text *string) *bool {
	if text == nil {
		return nil
	}
	yes := *text == "true"
	return &yes
}

type authorErase struct {
	AuthorArg
	RequiredReason
	Vacuum bool `help:"Also remove the erased data from the files and statistics of the tables (VACUUM), after the projections have applied the erasure. This is slow for large tables."`
}

func (*authorErase) Help() string {
	return "This cannot be undone. Repeat it to erase later comments."
}

// Run erases the author. It warns on standard error of places that still have the erased data.
func (c *authorErase) Run(ctx context.Context, env *env) error {
	name, s, out, err := c.author(ctx, env)
	if err != nil {
		return err
	}
	erased, err := s.EraseAuthor(ctx, name, c.Reason)
	if err != nil {
		return err
	}
	if err := c.finish(ctx, out, s, erased.AuthorID); err != nil {
		return fmt.Errorf("the author is erased, but %w", err)
	}
	return out.print(erased, func() {
		out.table([][]any{
			{"author", erased.AuthorID},
			{"comments", erased.Comments},
			{"decisions", erased.Decisions},
			{"erased", formatTime(&erased.ErasedAt)},
		})
		if !c.Vacuum {
			fmt.Fprintln(out.stdout,
				"The files and statistics of the tables keep the erased data until they are vacuumed: use --vacuum, or see "+
					"docs/security.md.")
		}
	})
}

// finish warns of unfinished rebuilds and stopped projections, and vacuums if --vacuum is set.
func (c *authorErase) finish(ctx context.Context, out *output, s *staff.Staff, authorID uuid.UUID) error {
	unfinished, err := s.UnfinishedRebuilds(ctx)
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		fmt.Fprintf(out.stderr,
			"An unfinished rebuild of %[1]s keeps the erased data: `novelgate projection rebuild %[1]s` finishes it, "+
				"`novelgate projection discard %[1]s` drops it.\n", name)
	}
	stopped, err := s.StoppedBefore(ctx, authorID)
	if err != nil {
		return err
	}
	for _, name := range stopped {
		fmt.Fprintf(out.stderr,
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
