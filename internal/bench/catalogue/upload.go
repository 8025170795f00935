package catalogue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"novelgate/internal/bench/load"
)

// share lets all connections work: each gets the indexes at least from and below n that are its own modulo their
// number, in order.
func (c *Client) share(
	ctx context.Context, from, n int, work func(ctx context.Context, i int) (answer, error),
) (*Report, error) {
	start := c.Now()
	reports := make([]Report, c.Connections)
	group, ctx := errgroup.WithContext(ctx)
	for own := range reports {
		group.Go(func() error {
			for i := own; i < n; i += c.Connections {
				if i < from {
					continue
				}
				a, err := work(ctx, i)
				if err != nil {
					return err
				}
				reports[own].add(a)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	total := &Report{}
	for i := range reports {
		total.merge(&reports[i])
	}
	total.Took = c.Now().Sub(start)
	return total, nil
}

// Novels upserts all novels and returns the titles that the service knows now.
func (c *Client) Novels(ctx context.Context, novels []Novel) (*Report, []string, error) {
	known := make([]bool, len(novels))
	report, err := c.share(ctx, 0, len(novels), func(ctx context.Context, i int) (answer, error) {
		a, err := c.send(ctx, "/api/integrations/novels", novels[i].Key, novels[i])
		known[i] = a.accepted()
		return a, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("upsert novels: %w", err)
	}
	var titles []string
	for i, novel := range novels {
		if known[i] {
			titles = append(titles, novel.Title)
		}
	}
	return report, titles, nil
}

// comment is the body of one comment.
type comment struct {
	UUID          string   `json:"uuid"`
	Username      string   `json:"username"`
	Novel         string   `json:"novel"`
	Content       string   `json:"content"`
	ChapterNumber *float64 `json:"chapterNumber,omitempty"`
	Timestamp     string   `json:"timestamp"`
	ParentUUID    string   `json:"parent_uuid,omitempty"`
}

// replies is the share of comments that answer an earlier one on the same novel.
const replies = 0.3

// readers is how many people write n comments.
func readers(n int) int { return min(max(n/50, 20), 3000) }

// Reader returns the identifier of one of those who comment.
func Reader(i int) string { return "reader-" + strconv.Itoa(i) }

// CommentKey returns the idempotency key of a comment.
func CommentKey(i int) string { return "catalogue-comment-" + strconv.Itoa(i) }

// composer makes n comments about titles. Comments i, i + stride, i + 2 × stride, … are sent one after another, and a
// reply answers one of its own series, so that its parent is always there before it.
type composer struct {
	titles    []string
	n, stride int
}

func (c composer) compose(i int) comment {
	// A series takes every stride-th novel in turn, so after span turns it is back at the same one.
	span := max(1, len(c.titles)/c.stride)
	turn := i / c.stride % span
	rng := rand.New(rand.NewPCG(uint64(i), 2026)) //nolint:gosec // not a secret, never negative
	user := rng.IntN(readers(c.n))
	written := time.Date(2025, 1, 1, 0, 0, i, 0, time.UTC)
	made := comment{
		UUID: Reader(user), Username: "Reader " + strconv.Itoa(user),
		Novel: c.titles[(i%c.stride+turn*c.stride)%len(c.titles)], Content: load.Content(rng),
	}
	if rng.IntN(4) == 0 { // under another name now and then
		made.Username += ", " + strconv.Itoa(2+rng.IntN(3))
	}
	if rng.IntN(8) == 0 { // delivered late
		written = written.Add(-time.Duration(rng.Int64N(int64(5 * 365 * 24 * time.Hour)))).Truncate(time.Millisecond)
	}
	made.Timestamp = written.Format(time.RFC3339Nano)
	if chapter := rng.IntN(400); chapter < 300 {
		number := float64(chapter) / 2 // every other one is an interlude
		made.ChapterNumber = &number
	}
	// The first comment on a novel has nothing to answer: the others make up for it.
	if first := span * c.stride; i >= first && rng.Float64() < replies*float64(c.n)/float64(c.n-first) {
		made.ParentUUID = CommentKey(i - first)
	}
	return made
}

// Comments imports comments on the titles: of n, those at least from.
func (c *Client) Comments(ctx context.Context, titles []string, from, n int) (*Report, error) {
	if len(titles) == 0 {
		n = 0
	}
	comments := composer{titles, n, c.Connections}
	report, err := c.share(ctx, from, n, func(ctx context.Context, i int) (answer, error) {
		return c.send(ctx, postsPath, CommentKey(i), comments.compose(i))
	})
	if err != nil {
		return nil, fmt.Errorf("import comments: %w", err)
	}
	return report, nil
}
