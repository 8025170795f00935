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
	Link         authorLink   `cmd:"" help:"Attribute an author's comments, old and new, to a member of the host platform."`
	Unlink       authorUnlink `cmd:"" help:"Attribute an author's comments to the partner platform again."`
	Block        authorDecide `cmd:"" help:"Refuse an author's further comments."`
	Unblock      authorDecide `cmd:"" help:"Let a blocked author comment again."`
	HidePosts    authorDecide `cmd:"" name:"hide-posts" help:"Hide all posts of an author that were received until now."`
	RestorePosts authorDecide `cmd:"" name:"restore-posts" help:"Restore the posts of an author. Posts that were hidden one by one stay hidden."`
	Erase        authorErase  `cmd:"" help:"Erase who an author is and what they wrote, from the log as well; it cannot be undone. Repeat it to erase what has come since."`
	Show         authorShow   `cmd:"" help:"Show an author and what was decided about them."`
	List         authorList   `cmd:"" help:"List the authors of an integration."`
}

var authorColumns = columns[staff.Author]{
	[]any{"UUID", "NAME", "MEMBER", "BLOCKED", "POSTS HIDDEN UNTIL", "FIRST SEEN"},
	func(a staff.Author) []any {
		return []any{
			a.ExternalUUID, orDash(a.DisplayName), orDash(a.MemberID), yesNo(a.Blocked), moment(a.PostsHiddenUntil),
			moment(a.FirstSeenAt),
		}
	},
}

// AuthorArg names an author, for commands about one.
type AuthorArg struct {
	IntegrationArg
	UUID string `arg:"" name:"uuid" help:"The partner's identifier of the author, exactly as on their comments; they need not have written any."`
}

// ProvideName finds the author's integration.
func (a AuthorArg) ProvideName(ctx context.Context, s *staff.Staff) (staff.AuthorName, error) {
	found, err := s.Integration(ctx, a.Integration)
	return staff.AuthorName{IntegrationID: found.ID, ExternalUUID: a.UUID}, err
}

type authorLink struct {
	AuthorArg
	Member string `arg:"" help:"The host platform's identifier of the member."`
	OptionalReason
}

func (c *authorLink) Run(ctx context.Context, out *output, s *staff.Staff, name staff.AuthorName) error {
	linked, err := s.LinkAuthor(ctx, name, c.Member, c.Reason)
	return authorColumns.print(out, linked, err)
}

type authorUnlink struct {
	AuthorArg
	OptionalReason
}

func (c *authorUnlink) Run(ctx context.Context, out *output, s *staff.Staff, name staff.AuthorName) error {
	unlinked, err := s.UnlinkAuthor(ctx, name, c.Reason)
	return authorColumns.print(out, unlinked, err)
}

type authorDecide struct {
	AuthorArg
	RequiredReason
}

func (c *authorDecide) Run(
	ctx context.Context, out *output, v verb, s *staff.Staff, name staff.AuthorName,
) error {
	decide := map[verb]func(context.Context, staff.AuthorName, string) (staff.Author, error){
		"block": s.BlockAuthor, "unblock": s.UnblockAuthor,
		"hide-posts": s.HideAuthorPosts, "restore-posts": s.RestoreAuthorPosts,
	}
	decided, err := decide[v](ctx, name, c.Reason)
	return authorColumns.print(out, decided, err)
}

type authorShow struct{ AuthorArg }

func (*authorShow) Run(ctx context.Context, out *output, s *staff.Staff, name staff.AuthorName) error {
	a, err := s.Author(ctx, name)
	if err != nil {
		return err
	}
	history, err := s.AuthorHistory(ctx, name)
	if err != nil {
		return err
	}
	withHistory := struct {
		staff.Author
		History []staff.HistoryEntry `json:"history"`
	}{a, history}
	return out.print(withHistory, func() {
		authorColumns.table(out.streams, a)
		printHistory(out, history)
	})
}

type authorList struct {
	IntegrationArg
	RowsFlag
	Linked  *string `enum:"true,false" placeholder:"true|false" help:"Only those who are linked to a member, or only those who are not."`
	Blocked *string `enum:"true,false" placeholder:"true|false" help:"Only those who are blocked, or only those who are not."`
}

// Run prints authors in the order of their identifiers.
func (c *authorList) Run(ctx context.Context, out *output, s *staff.Staff, i staff.Integration) error {
	list, err := s.ListAuthors(ctx, staff.AuthorFilter{
		IntegrationID: i.ID, Linked: choice(c.Linked), Blocked: choice(c.Blocked), Limit: c.Limit.sought(),
	})
	return authorColumns.printList(out, shown(out.streams, list, c.Limit), err)
}

// choice is true or false, nil for neither.
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
	Vacuum bool `help:"Then free what the tables' files and statistics still hold of it (VACUUM), once the projections have applied the erasure; takes a while on large ones."`
}

// Run erases the author, and names on standard error what the erasure has not reached.
func (c *authorErase) Run(ctx context.Context, out *output, s *staff.Staff, name staff.AuthorName) error {
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
			{"erased", moment(&erased.ErasedAt)},
		})
		if !c.Vacuum {
			fmt.Fprintln(out.stdout,
				"What was there is in the files and statistics of the tables until they are vacuumed: --vacuum, or see "+
					"docs/security.md.")
		}
	})
}

// finish warns of what still shows the author, and vacuums.
func (c *authorErase) finish(ctx context.Context, out *output, s *staff.Staff, authorID uuid.UUID) error {
	unfinished, err := s.UnfinishedRebuilds(ctx)
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		fmt.Fprintf(out.stderr,
			"An unfinished rebuild of %[1]s keeps what was erased: `novelgate projection rebuild %[1]s` finishes it, "+
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

// applyPatience is how long --vacuum waits for the projections.
const applyPatience = 30 * time.Second

// vacuumSQL also cleans indexes from which little has gone, one of which holds identifiers, and takes new samples for
// the planner's statistics. Last come the statistics themselves, of which the old ones have to go, too; a role that may
// not do that is warned and goes on.
const vacuumSQL = `VACUUM (INDEX_CLEANUP ON, ANALYZE) events, posts, authors, author_decisions, daily_authors, pg_catalog.pg_statistic`

// vacuumErased frees what files and statistics hold of an author who is erased. Before the tables have lost it there
// would be nothing to free.
func vacuumErased(ctx context.Context, s *staff.Staff, authorID uuid.UUID) error {
	waiting, cancel := context.WithTimeout(ctx, applyPatience)
	defer cancel()
	err := s.AwaitErased(waiting, authorID)
	var behind *staff.NotAppliedError
	if errors.As(err, &behind) {
		return fmt.Errorf("the files were not freed, because these projections have not applied it yet: %s. "+
			"Repeat the command with --vacuum once `novelgate projection list` shows them up to date",
			strings.Join(behind.Projections, ", "))
	}
	if err == nil {
		_, err = s.Pool.Exec(ctx, vacuumSQL)
	}
	if err != nil {
		return fmt.Errorf("the files were not freed: %w", err)
	}
	return nil
}
