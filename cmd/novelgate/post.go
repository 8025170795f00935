package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/post"
	"novelgate/commands/staff"
	"novelgate/internal/title"
)

type postCommand struct {
	Hide           postDecision `cmd:"" help:"Hide posts from readers. The partner can read the reason."`
	Restore        postDecision `cmd:"" help:"Make hidden posts visible again, also those hidden with all posts of its author."`
	DismissReports postDecision `cmd:"" help:"Find the reports of posts unfounded. The reporting partners can read the reason."`
	Show           PostArg      `cmd:"" help:"Show a post, hidden or not, with its author and history."`
	List           postList     `cmd:"" help:"List posts, hidden or not."`
}

type postList struct {
	StaffFlags
	RowsFlag
	Novel       string   `placeholder:"TITLE" help:"Only posts on this novel."`
	Integration string   `placeholder:"NAME" help:"Only posts of this integration, by name or id."`
	Author      string   `help:"Only posts of this author: the partner's identifier with --integration, otherwise the authorId."`
	State       *string  `enum:"visible,hidden,reported,edited,withdrawn" placeholder:"STATE" help:"visible, hidden, reported (waiting for a decision), edited or withdrawn."`
	Text        string   `placeholder:"WORDS" help:"Only posts with all these words, if the service runs with --search-comments."`
	Chapter     string   `placeholder:"NUMBER" help:"Only posts on this chapter; none: on the novel as a whole."`
	From        *instant `placeholder:"TIME" help:"Received at this time (RFC 3339) or later."`
	To          *instant `placeholder:"TIME" help:"Received before this time."`
	Sort        string   `enum:"newest,waiting" default:"newest" help:"newest, or waiting: only reported posts, the longest waiting first."`
}

// filter looks up what the flags name.
func (c *postList) filter(ctx context.Context, s staffService) (staff.PostFilter, error) {
	f := staff.PostFilter{
		State: textOf(c.State), Text: c.Text, Chapter: c.Chapter, From: (*time.Time)(c.From), To: (*time.Time)(c.To),
		Sort: c.Sort, Limit: c.Limit.readLimit(),
	}
	if c.Chapter != "" && !staff.IsChapter(c.Chapter) {
		return f, errors.New("--chapter: must be a decimal number or none")
	}
	if c.Novel != "" {
		found, err := s.Novel(ctx, c.Novel)
		if err != nil {
			return f, err
		}
		f.NovelID = found.NovelID
	}
	if c.Integration != "" {
		found, err := s.Integration(ctx, c.Integration)
		if err != nil {
			return f, err
		}
		f.IntegrationID = found.ID
	}
	switch {
	case c.Author == "":
	case c.Integration != "":
		found, err := s.AuthorWithHistory(ctx, staff.AuthorName{IntegrationID: f.IntegrationID, ExternalUUID: c.Author})
		if err != nil {
			return f, err
		}
		f.AuthorID = found.ID
	default:
		id, err := uuid.Parse(c.Author)
		if err != nil {
			return f, errors.New("--author: must be an authorId, or the partner's identifier together with --integration")
		}
		f.AuthorID = id
	}
	return f, nil
}

var postColumns = columns[staff.ListedPost]{
	[]any{"POST", "STATE", "RECEIVED, BY, ON, TEXT"},
	func(p staff.ListedPost) []any {
		state, author, content, reports := string(p.State), "an erased author", "", 0
		if p.Withdrawn {
			state, author = string(post.Gone), "a withdrawn comment"
		}
		for _, readers := range p.Reports {
			reports += readers
		}
		if reports > 0 {
			state += fmt.Sprintf(", reports: %d", reports)
		}
		if p.Author != nil {
			author, content = named(p.Author.Username, p.Author.ExternalUUID), ": "+title.Clip(*p.Content, 200)
		}
		return []any{p.PostID, state, fmt.Sprintf("%s  %s of %s on %s%s", formatTime(&p.ReceivedAt), author,
			p.Integration.Name, title.Clip(p.Novel.Title, 60), content)}
	},
}

// PostArg names a post.
type PostArg struct {
	StaffFlags
	PostID postID `arg:"" help:"Id or URL of the post."`
}

type postDecision struct {
	StaffFlags
	PostIDs []postID `arg:"" name:"post-id" optional:"" help:"Ids or URLs of posts."`
	Stdin   bool     `help:"Read further ids from standard input: words, or what post list prints."`
	RequiredReason
}

// ids returns the ids of the arguments and of standard input, each once.
func (c *postDecision) ids() ([]uuid.UUID, error) {
	var all []uuid.UUID
	for _, id := range c.PostIDs {
		all = append(all, uuid.UUID(id))
	}
	if c.Stdin {
		piped, err := readIDs(os.Stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		all = append(all, piped...)
	}
	seen := map[uuid.UUID]bool{}
	all = slices.DeleteFunc(all, func(id uuid.UUID) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
	if len(all) == 0 {
		return nil, errors.New("no post: give ids of posts, or --stdin")
	}
	return all, nil
}

func isPostState(word string) bool {
	return slices.Contains([]post.State{post.Visible, post.Hidden, post.Gone}, post.State(strings.TrimSuffix(word, ",")))
}

// readIDs reads ids or URLs of posts, separated by white space, or rows of a postColumns table. Of a row, which has the
// text of a partner, it takes only the first column.
func readIDs(r io.Reader) ([]uuid.UUID, error) {
	var all []uuid.UUID
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) > 1 && isPostState(words[1]) {
			words = words[:1]
		}
		if len(words) > 0 && words[0] == postColumns.heading[0] {
			continue
		}
		for _, word := range words {
			var id postID
			if err := id.UnmarshalText([]byte(word)); err != nil {
				return nil, err
			}
			all = append(all, uuid.UUID(id))
		}
	}
	return all, lines.Err() //nolint:wrapcheck // the caller says what was read
}

var decidedColumns = columns[staff.Decided]{
	[]any{"POST", "OUTCOME"},
	func(d staff.Decided) []any {
		if d.Problem != nil {
			return []any{d.PostID, d.Problem.Detail}
		}
		return []any{d.PostID, "done"}
	},
}

// decide executes a decision about posts: one, which it shows, or several, of which it shows the outcomes. It counts
// those that were refused.
func (c *postDecision) decide(
	ctx context.Context, s staffService, decision string, refused *int,
	one func(ctx context.Context, id uuid.UUID, reason string) (staff.Post, error),
) (result, error) {
	ids, err := c.ids()
	if err != nil {
		return result{}, err
	}
	if len(ids) == 1 {
		return shownPost(one(ctx, ids[0], c.Reason))
	}
	outcomes := []staff.Decided{}
	for some := range slices.Chunk(ids, staff.MaxDecided) {
		decided, err := s.DecidePosts(ctx, decision, some, c.Reason)
		if err != nil {
			return result{}, fmt.Errorf("after %d of %d posts: %w", len(outcomes), len(ids), err)
		}
		outcomes = append(outcomes, decided.Items...)
	}
	for _, outcome := range outcomes {
		if outcome.Problem != nil {
			*refused++
		}
	}
	return decidedColumns.list(outcomes, nil)
}

func (c *postCommand) run(ctx context.Context, env *environment) error {
	refused := 0
	err := env.answer(ctx, func(s staffService) (result, error) {
		switch env.verb {
		case "hide":
			return c.Hide.decide(ctx, s, staff.Hide, &refused, s.HidePost)
		case "restore":
			return c.Restore.decide(ctx, s, staff.Restore, &refused, s.RestorePost)
		case "dismiss-reports":
			return c.DismissReports.decide(ctx, s, staff.Dismiss, &refused, s.DismissReports)
		case "list":
			filter, err := c.List.filter(ctx, s)
			if err != nil {
				return result{}, err
			}
			list, err := s.ListPosts(ctx, filter)
			return postColumns.list(within(env, c.List.Limit, list), err)
		default: // show
			return shownPost(s.Post(ctx, uuid.UUID(c.Show.PostID)))
		}
	})
	if err == nil && refused > 0 {
		err = fmt.Errorf("posts that were refused: %d", refused)
	}
	return err
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
	if p.Omitted > 0 {
		rows = append(rows, []any{"omitted", fmt.Sprintf("%d older edits and reports", p.Omitted)})
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
			entry.Version, formatTime(&entry.RecordedAt), entry.Type, cmp.Or(entry.ActorName, entry.Actor),
			title.Clip(entry.Summary, 200),
		})
	}
	fmt.Fprintln(env.stdout)
	env.table(rows...)
}
