package staff

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/title"
	"novelgate/internal/web"
	"novelgate/projections"
)

// Orders of a list of posts.
const (
	Newest  = "newest"  // by arrival, the latest first
	Waiting = "waiting" // posts with reports that wait for a decision, the longest first
)

// States by which a list of posts is filtered.
const (
	OnlyVisible   = "visible"
	OnlyHidden    = "hidden" // by a decision about the post; of one author also with all posts of the author
	OnlyReported  = "reported"
	OnlyEdited    = "edited"
	OnlyWithdrawn = "withdrawn"
)

// PostFilter selects posts. A zero field does not restrict the list.
type PostFilter struct {
	NovelID       uuid.UUID
	AuthorID      uuid.UUID
	IntegrationID uuid.UUID
	State         string
	Text          string     // has all these words, in any order
	Chapter       string     // a decimal number, or NoChapter
	From          *time.Time // received at this time or later
	To            *time.Time // received before this time
	Sort          string     // Newest or Waiting; "": Newest
	Cursor        string     // of the previous page
	Limit         int        // 1 or more
}

// NoChapter selects comments on the novel as a whole.
const NoChapter = "none"

var decimal = regexp.MustCompile(`^\d{1,100}(\.\d{1,100})?$`)

// IsChapter reports whether a text is a Chapter of a PostFilter: NoChapter or a number without sign and exponent.
func IsChapter(text string) bool { return text == NoChapter || decimal.MatchString(text) }

// ListedPost is a post in a list.
type ListedPost struct {
	PostID          uuid.UUID      `json:"postId"`
	ThreadID        uuid.UUID      `json:"threadId"`
	Novel           NovelHeading   `json:"novel"`
	Integration     Partner        `json:"integration"`
	ParentPostID    *uuid.UUID     `json:"parentPostId"`
	ChapterNumber   jsontext.Value `json:"chapterNumber"`
	WrittenAt       time.Time      `json:"writtenAt"`
	ReceivedAt      time.Time      `json:"receivedAt"`
	EditedAt        *time.Time     `json:"editedAt"` // nil: never
	Withdrawn       bool           `json:"withdrawn"`
	Content         *string        `json:"content"` // nil, like author, after erasure or withdrawal
	Author          *PostAuthor    `json:"author"`
	State           post.State     `json:"state"`
	HiddenBy        *string        `json:"hiddenBy"` // nil, like reason, when visible
	Reason          *string        `json:"reason"`
	Reports         map[string]int `json:"reports"` // readers by reason, since the latest decision about the post
	FirstReportedAt *time.Time     `json:"firstReportedAt"`

	place int64
	since time.Time
}

// NovelHeading names the novel of a post.
type NovelHeading struct {
	NovelID uuid.UUID `json:"novelId"`
	Slug    string    `json:"slug"`
	Title   string    `json:"title"`
}

// Partner names the integration of a post.
type Partner struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Name          string    `json:"name"`
}

// Reasons to refuse the Text of a PostFilter.
var (
	ErrNoWord    = errors.New("the text to search for has no letter or digit")
	ErrNoWords   = errors.New("comments are found by their text only if the service runs with --search-comments")
	ErrWordsLate = errors.New("the words of earlier comments are still being collected: see novelgate projection list")
)

// ErrPostCursor refuses a cursor that is not of a page of posts in the same order.
var ErrPostCursor = errors.New("is not the nextCursor of a page of this list")

// postList is the name of a list of posts in cursors.
func postList(sort string) string { return "p" + sort[:1] }

// examined is the maximum number of candidates of a page, which bounds the time of a page with a filter that matches
// little. Such a page may have fewer posts than its limit, even none, before the last page.
const examined = 5000

//go:embed posts_list.sql
var postsListSQL string

const (
	newestOrder  = "place DESC"
	waitingOrder = "since, post_id"
)

// postQuery is a statement about a list of posts.
type postQuery struct {
	walk, filter, order string
	args                []any
	walkArgs            int      // how many of args are in walk
	words               []string // that the text has; nil: any text
	walksWords          bool     // the candidates have the words
}

// arg adds an argument, and returns its place in the statement.
func (q *postQuery) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// page returns the statement for up to limit posts.
func (q *postQuery) page(limit int) string {
	return strings.NewReplacer(":walk", q.walk, ":filter", q.filter, ":order", q.order, ":limit", strconv.Itoa(limit)).
		Replace(postsListSQL[strings.Index(postsListSQL, "WITH"):])
}

// last returns the statement for the last candidate, if there are as many as may be examined.
func (q *postQuery) last() string {
	return fmt.Sprintf("SELECT place, since, post_id FROM (%s) AS walked ORDER BY %s OFFSET %d LIMIT 1", q.walk, q.order,
		examined-1)
}

// PostPage is a page of posts. Next is the cursor of the next page; "" on the last one.
type PostPage struct {
	Items []ListedPost
	Next  string
}

// PostsPage reads a page of posts. It fails with ErrPostCursor.
func (s *Staff) PostsPage(ctx context.Context, f PostFilter) (PostPage, error) {
	if f.Sort == "" {
		f.Sort = Newest
	}
	q, err := s.postQuery(ctx, f)
	if err != nil {
		return PostPage{}, err
	}
	found, err := database.Collect(ctx, s.Pool, "posts", scanListedPost, q.page(f.Limit+1), q.args...)
	if err != nil {
		return PostPage{}, err
	}
	if len(found) > f.Limit {
		return PostPage{q.withWords(found[:f.Limit]), postCursor(f.Sort, found[f.Limit-1])}, nil
	}
	// The filter selected too few of the candidates: the next page goes on after them.
	last, err := database.Collect(ctx, s.Pool, "last candidate", func(row pgx.CollectableRow) (p ListedPost, err error) {
		var since pgtype.Timestamptz
		err = row.Scan(&p.place, &since, &p.PostID)
		p.since = since.Time
		return p, err //nolint:wrapcheck // Collect does
	}, q.last(), q.args[:q.walkArgs]...)
	if err != nil || len(last) == 0 {
		return PostPage{Items: q.withWords(found)}, err
	}
	return PostPage{q.withWords(found), postCursor(f.Sort, last[0])}, nil
}

// withWords removes the posts whose text does not have all words: post_words has hashes, and follows the log later than
// an erasure.
func (q *postQuery) withWords(found []ListedPost) []ListedPost {
	if q.words == nil {
		return found
	}
	return slices.DeleteFunc(found, func(p ListedPost) bool {
		if p.Content == nil {
			return true
		}
		has := title.Words(*p.Content)
		return slices.ContainsFunc(q.words, func(word string) bool { return !slices.Contains(has, word) })
	})
}

// ListPosts lists up to f.Limit posts, over as many pages as it takes.
func (s *Staff) ListPosts(ctx context.Context, f PostFilter) ([]ListedPost, error) {
	items, limit := []ListedPost{}, f.Limit
	for len(items) < limit {
		f.Limit = min(limit-len(items), 100)
		page, err := s.PostsPage(ctx, f)
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	return items, nil
}

func postCursor(sort string, p ListedPost) string {
	key := strconv.FormatInt(p.place, 10)
	if sort == Waiting {
		key = p.since.UTC().Format(time.RFC3339Nano) + " " + p.PostID.String()
	}
	return web.EncodeCursor(postList(sort), key)
}

// postQuery returns the query for a page. The candidates come from the narrowest index, without a sort.
func (s *Staff) postQuery(ctx context.Context, f PostFilter) (*postQuery, error) {
	q := &postQuery{order: newestOrder}
	err := q.readWords(ctx, s.Pool, f.Text)
	if err != nil {
		return nil, err
	}
	if f.Sort == Waiting {
		q.order = waitingOrder
		err = q.walkWaiting(f)
	} else {
		err = s.walkNewest(ctx, q, f)
	}
	if err != nil {
		return nil, err
	}
	q.walkArgs = len(q.args)
	var filter []string
	add := func(sql string, value any) { filter = append(filter, fmt.Sprintf(sql, q.arg(value))) }
	for column, id := range map[string]uuid.UUID{
		"p.novel_id": f.NovelID, "p.author_id": f.AuthorID, "p.integration_id": f.IntegrationID,
	} {
		if id != uuid.Nil {
			add(column+" = %s::uuid", id)
		}
	}
	if f.From != nil {
		add("p.recorded_at >= %s::timestamptz", *f.From)
	}
	if f.To != nil {
		add("p.recorded_at < %s::timestamptz", *f.To)
	}
	if q.words != nil && !q.walksWords {
		// OFFSET 0: by the primary key, not by the words.
		add(`(SELECT w.words @> ARRAY(SELECT w.log_index >> 16 << 32 | h FROM unnest(%s::bigint[]) AS h)
        FROM (SELECT x.log_index, x.words FROM post_words x WHERE x.log_index = p.log_index OFFSET 0) AS w)`,
			projections.WordHashes(q.words))
	}
	switch f.Chapter {
	case "":
	case NoChapter:
		filter = append(filter, "p.chapter_number IS NULL")
	default:
		add("p.chapter_number = %s::text::numeric", f.Chapter)
	}
	const isHidden = "post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until)"
	switch f.State {
	case OnlyVisible:
		filter = append(filter, "p.author_id IS NOT NULL AND NOT "+isHidden)
	case OnlyHidden:
		filter = append(filter, "NOT p.withdrawn AND "+isHidden)
	case OnlyReported:
		filter = append(filter, "EXISTS (SELECT FROM reported_posts o WHERE o.post_id = p.post_id)")
	case OnlyEdited:
		filter = append(filter, "p.edited_at IS NOT NULL")
	case OnlyWithdrawn:
		filter = append(filter, "p.withdrawn")
	}
	if q.filter = strings.Join(filter, " AND "); q.filter == "" {
		q.filter = "true"
	}
	return q, nil
}

// readWords reads the words of a text to search for, unless it is empty. It fails with ErrNoWord, ErrNoWords or
// ErrWordsLate.
func (q *postQuery) readWords(ctx context.Context, db database.DB, text string) error {
	if text == "" {
		return nil
	}
	if q.words = title.Words(text); len(q.words) == 0 {
		return ErrNoWord
	}
	words := projections.Words{}
	var generation int
	err := db.QueryRow(ctx, `SELECT generation FROM projections WHERE name = $1`, words.Name()).Scan(&generation)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNoWords
	case err != nil:
		return fmt.Errorf("look for the words of comments: %w", err)
	case generation != words.Generation():
		return ErrWordsLate
	}
	return nil
}

// walkWaiting selects reported posts, the longest waiting first.
func (q *postQuery) walkWaiting(f PostFilter) error {
	after := ""
	if f.Cursor != "" {
		key, ok := web.DecodeCursor(postList(f.Sort), f.Cursor)
		since, id, _ := strings.Cut(key, " ")
		at, err := web.ParseTime(since)
		post, valid := web.ParseID(id)
		if !ok || err != nil || !valid {
			return ErrPostCursor
		}
		after = fmt.Sprintf("WHERE (o.first_reported_at, o.post_id) > (%s::timestamptz, %s::uuid)", q.arg(at), q.arg(post))
	}
	q.walk = fmt.Sprintf(`SELECT o.post_id, 0::bigint AS place, o.first_reported_at AS since FROM reported_posts o
    %s ORDER BY o.first_reported_at, o.post_id LIMIT %d`, after, examined)
	return nil
}

// walkNewest selects posts by their place in the log, the latest first.
func (s *Staff) walkNewest(ctx context.Context, q *postQuery, f PostFilter) error {
	from, to, err := s.places(ctx, f)
	if err != nil {
		return err
	}
	first, end := q.arg(from), q.arg(to)
	between := fmt.Sprintf("q.log_index >= %s::bigint AND q.log_index < %s::bigint", first, end)
	var source string
	switch {
	case f.AuthorID != uuid.Nil:
		source = "posts q WHERE q.author_id = " + q.arg(f.AuthorID) + "::uuid"
	case f.State == OnlyReported:
		source = "reported_posts q WHERE true"
	case f.State == OnlyHidden:
		source = "posts q WHERE q.hidden"
	case f.State == OnlyEdited:
		source = "posts q WHERE q.edited_at IS NOT NULL"
	case f.State == OnlyWithdrawn:
		source = "posts q WHERE q.withdrawn"
	case f.NovelID != uuid.Nil:
		source = "posts q WHERE q.novel_id = " + q.arg(f.NovelID) + "::uuid"
	case q.words != nil:
		// post_words is named so that it is locked before the statement gets its snapshot: see novels_with_facets.
		q.walksWords = true
		q.walk = fmt.Sprintf(`SELECT q.found_post AS post_id, q.found_place AS place, NULL::timestamptz AS since
    FROM posts_with_words(%s::bigint[], %s::bigint, %s::bigint, %d) AS q
    LEFT JOIN (SELECT FROM post_words LIMIT 0) AS w ON true
    ORDER BY q.found_place DESC LIMIT %[4]d`, q.arg(projections.WordHashes(q.words)), first, end, examined)
		return nil
	default:
		// The log has the order of all comments: an index of posts for it would cost every import. Most events are comments.
		q.walk = fmt.Sprintf(`SELECT CASE q.event_type WHEN 'post.imported.v1' THEN q.stream_id END AS post_id, q.log_index AS place,
           NULL::timestamptz AS since
    FROM events q WHERE %s ORDER BY q.log_index DESC LIMIT %d`, between, examined)
		return nil
	}
	q.walk = fmt.Sprintf(`SELECT q.post_id, q.log_index AS place, NULL::timestamptz AS since FROM %s AND %s
    ORDER BY q.log_index DESC LIMIT %d`, source, between, examined)
	return nil
}

// places returns the range of the log, without its end, of a page.
func (s *Staff) places(ctx context.Context, f PostFilter) (from, to int64, err error) {
	const endSQL = `SELECT coalesce(max(log_index) + 1, 0) FROM events`
	if err := s.Pool.QueryRow(ctx, endSQL).Scan(&to); err != nil {
		return 0, 0, fmt.Errorf("find the end of the log: %w", err)
	}
	end := to
	if f.From != nil {
		if from, err = s.placeOf(ctx, *f.From, end); err != nil {
			return 0, 0, err
		}
	}
	if f.To != nil {
		if to, err = s.placeOf(ctx, *f.To, end); err != nil {
			return 0, 0, err
		}
	}
	if f.Cursor != "" {
		key, ok := web.DecodeCursor(postList(f.Sort), f.Cursor)
		before, err := strconv.ParseInt(key, 10, 64)
		if !ok || err != nil || before < 0 {
			return 0, 0, ErrPostCursor
		}
		to = min(to, before)
	}
	return from, to, nil
}

// placeOf returns the place of the first event before end that was recorded at a time or later, by binary search:
// events are recorded in the order of the log, except where the clock of the database was set back.
func (s *Staff) placeOf(ctx context.Context, at time.Time, end int64) (int64, error) {
	from := int64(0)
	for from < end {
		middle := (from + end) / 2
		var earlier bool
		if err := s.Pool.QueryRow(ctx, `SELECT coalesce((SELECT recorded_at < $2 FROM events WHERE log_index >= $1
    ORDER BY log_index LIMIT 1), false)`, middle, at).Scan(&earlier); err != nil {
			return 0, fmt.Errorf("find a time in the log: %w", err)
		}
		if earlier {
			from = middle + 1
		} else {
			end = middle
		}
	}
	return from, nil
}

func scanListedPost(row pgx.CollectableRow) (p ListedPost, err error) {
	var (
		since                  pgtype.Timestamptz
		chapter, member        pgtype.Text
		authorID               uuid.NullUUID
		stored                 []byte
		blocked, alone, hidden bool
		reason                 string
		reports                [6]pgtype.Int8
	)
	if err := row.Scan(&p.place, &since, &p.PostID, &p.ThreadID, &p.Novel.NovelID, &p.Novel.Slug, &p.Novel.Title,
		&p.Integration.IntegrationID, &p.Integration.Name, &p.ParentPostID, &chapter, &p.WrittenAt, &p.ReceivedAt,
		&p.EditedAt, &p.Withdrawn, &stored, &authorID, &member, &blocked, &alone, &hidden, &reason, &reports[0],
		&reports[1], &reports[2], &reports[3], &reports[4], &reports[5], &p.FirstReportedAt); err != nil {
		return ListedPost{}, fmt.Errorf("scan post: %w", err)
	}
	p.since, p.WrittenAt, p.ReceivedAt, p.State = since.Time, p.WrittenAt.UTC(), p.ReceivedAt.UTC(), post.Visible
	for _, at := range []*time.Time{p.EditedAt, p.FirstReportedAt} {
		if at != nil {
			*at = at.UTC()
		}
	}
	if p.Withdrawn {
		p.State = post.Gone
	}
	if chapter.Valid {
		p.ChapterNumber = jsontext.Value(chapter.String)
	}
	if hidden {
		by := post.WithAuthor
		if alone {
			by = post.Individually
		}
		p.State, p.HiddenBy, p.Reason = post.Hidden, &by, &reason
	}
	p.Reports = map[string]int{}
	for i, name := range events.ReportReasons {
		if reports[i].Int64 > 0 {
			p.Reports[name] = int(reports[i].Int64)
		}
	}
	if stored == nil {
		return p, nil
	}
	var comment events.Comment
	if err := json.Unmarshal(stored, &comment); err != nil {
		return ListedPost{}, fmt.Errorf("decode the text of a comment: %w", err)
	}
	p.Content = &comment.Content
	p.Author = &PostAuthor{
		ID: authorID.UUID, ExternalUUID: comment.ExternalUUID, Username: comment.Username, Blocked: blocked,
	}
	if member.Valid {
		p.Author.MemberID = &member.String
	}
	return p, nil
}
