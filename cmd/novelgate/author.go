package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/events/eventlog"
	"novelgate/internal/console"
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
	Rewrite bool `help:"Also remove the erased data from the files of the database, after the projections have applied the erasure: rewrite the tables that held it (VACUUM FULL). Each table is locked while it is rewritten, the log for longest: commands and readers wait, or get 503."`
}

func (*authorErase) Help() string {
	return "This cannot be undone. Repeat it to erase later comments. Without --rewrite, queries find nothing any more, " +
		"but the files of the database keep the text until PostgreSQL happens to overwrite it. WAL, backups and exports " +
		"keep it in any case, until they expire."
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
	return env.answer(ctx, func(s staffService) (result, error) {
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

func (a AuthorArg) name(ctx context.Context, s staffService) (staff.AuthorName, error) {
	i, err := s.Integration(ctx, a.Integration)
	return staff.AuthorName{IntegrationID: i.ID, ExternalUUID: a.UUID}, err
}

func shownAuthor(a staff.Author, err error) (result, error) {
	return result{a, func(env *environment) {
		authorColumns.print(env, a)
		if a.FirstSeenAt == nil {
			fmt.Fprintln(env.stderr, "No comment of this author is known. If there should be one, compare the identifier with "+
				"`novelgate author list`, which also shows names.")
		}
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
func (c *authorErase) erase(ctx context.Context, env *environment, s staffService) (result, error) {
	onDatabase, ok := s.(*staff.Staff)
	if c.Rewrite && !ok {
		return result{}, errors.New("--rewrite needs the database: without it the author can be erased through the service")
	}
	name, err := c.name(ctx, s)
	if err != nil {
		return result{}, err
	}
	erased, err := s.EraseAuthor(ctx, name, c.Reason)
	if err != nil {
		return result{}, err
	}
	if ok {
		if err := c.finish(ctx, env, onDatabase, erased.AuthorID); err != nil {
			return result{}, fmt.Errorf("the author is erased, but %w", err)
		}
	}
	return result{erased, func(env *environment) {
		env.table(
			[]any{"author", erased.AuthorID},
			[]any{"comments", erased.Comments},
			[]any{"decisions", erased.Decisions},
			[]any{"erased", formatTime(&erased.ErasedAt)},
		)
		if !c.Rewrite {
			fmt.Fprintln(env.stdout,
				"The files of the database keep the erased data until their tables are rewritten: use --rewrite, or see "+
					"docs/security.md.")
		}
	}}, nil
}

// finish warns of unfinished rebuilds and stopped projections, and rewrites tables if --rewrite is set.
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
	if c.Rewrite {
		if err := rewriteErased(ctx, env, s, authorID); err != nil {
			return fmt.Errorf("its data is still in the files of the database: %w", err)
		}
	}
	return nil
}

const (
	applyTimeout = 30 * time.Second // how long --rewrite waits for the projections
	olderTimeout = 5 * time.Second  // how long it waits for older transactions
)

// rewriteSQL rewrites the tables that held data of an author. VACUUM without FULL is not enough: it moves the rows of a
// page together, and what was there before stays readable behind them. The samples of ANALYZE are deleted first,
// because it keeps those of an empty table. While a statement waits for the lock of a table, every other session waits
// behind it: therefore the short time-out. The checkpoint deletes the old files.
var rewriteSQL = []string{
	`SET lock_timeout = '10s'`,
	`DELETE FROM pg_catalog.pg_statistic WHERE starelid IN (
    SELECT unnest(ARRAY['posts', 'authors', 'post_words', 'author_decisions', 'console_notes', 'console_sessions',
        'events']::regclass[]))`,
	`VACUUM (FULL, ANALYZE) posts, authors, post_words, author_decisions, console_notes, console_sessions, events`,
	`VACUUM (FULL) pg_catalog.pg_statistic`,
	`CHECKPOINT`,
}

// olderSQL names what may still read rows that were deleted before the transaction $1: a rewrite copies these rows.
const olderSQL = `SELECT coalesce(string_agg(name, ', '), '') FROM (
    SELECT format('process %s (%s)', pid, application_name) AS name, backend_xmin AS xmin FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (datname IS NULL OR datname = current_database())
    UNION ALL SELECT format('replication slot %s', slot_name), xmin FROM pg_replication_slots
    UNION ALL SELECT format('prepared transaction %s', gid), transaction FROM pg_prepared_xacts
    WHERE database = current_database()
) AS holders WHERE age(xmin) > age($1::text::xid)`

// rewriteErased removes an erased author's data from the files of the database. It first waits until the projections
// have applied the erasure, and until no transaction can read what was there before.
func rewriteErased(ctx context.Context, env *environment, s *staff.Staff, authorID uuid.UUID) error {
	waiting, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	err := s.AwaitErased(waiting, authorID)
	if pending, ok := errors.AsType[*staff.NotAppliedError](err); ok {
		return fmt.Errorf("these projections have not applied the erasure yet: %s. Repeat the command with --rewrite once "+
			"`novelgate projection list` shows them up to date", strings.Join(pending.Projections, ", "))
	}
	if err != nil {
		return err
	}
	if err := console.Forget(ctx, s.Pool); err != nil {
		return err
	}
	if err := awaitOlder(ctx, s.Pool); err != nil {
		return err
	}
	config := s.Pool.Config().ConnConfig
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		fmt.Fprintf(env.stderr, "%s: %s\n", notice.Severity, notice.Message)
	}
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer session.Close(ctx) //nolint:errcheck // the process ends
	for _, statement := range rewriteSQL {
		_, err := session.Exec(ctx, statement)
		refused, _ := errors.AsType[*pgconn.PgError](err)
		switch {
		case refused != nil && refused.Code == insufficientPrivilege:
			// The statistics and the checkpoint need rights of an administrator; the tables do not.
			fmt.Fprintf(env.stderr, "%s: %s\n", refused.Severity, refused.Message)
		case eventlog.IsLocked(err):
			return fmt.Errorf("another session has held a table for 10 s: repeat the command with --rewrite: %w", err)
		case err != nil:
			return fmt.Errorf("rewrite the tables: %w", err)
		}
	}
	return nil
}

// insufficientPrivilege is the SQLSTATE of a statement for which the role lacks the right.
const insufficientPrivilege = "42501"

// awaitOlder waits until nothing can read rows that are deleted now.
func awaitOlder(ctx context.Context, pool *pgxpool.Pool) error {
	var now, holders string
	if err := pool.QueryRow(ctx, `SELECT pg_current_xact_id()::xid::text`).Scan(&now); err != nil {
		return fmt.Errorf("look for older transactions: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, olderTimeout)
	defer cancel()
	for {
		if err := pool.QueryRow(ctx, olderSQL, now).Scan(&holders); err != nil {
			return fmt.Errorf("look for older transactions: %w", err)
		}
		if holders == "" {
			return nil
		}
		if !eventlog.Sleep(waiting, 100*time.Millisecond) {
			return fmt.Errorf("older transactions may still read it: %s. Repeat the command with --rewrite once they have ended",
				holders)
		}
	}
}
