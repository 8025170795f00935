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

// share lets all connections work: each gets the indexes from 0 to n that are its own modulo their number, in order.
func (c *Client) share(ctx context.Context, n int, work func(ctx context.Context, i int) (answer, error)) (*Report, error) {
	start := c.Now()
	reports := make([]Report, c.Connections)
	group, ctx := errgroup.WithContext(ctx)
	for own := range reports {
		group.Go(func() error {
			for i := own; i < n; i += c.Connections {
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
	report, err := c.share(ctx, len(novels), func(ctx context.Context, i int) (answer, error) {
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

func commentKey(i int) string { return "catalogue-comment-" + strconv.Itoa(i) }

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
	user := strconv.Itoa(rng.IntN(3000))
	made := comment{
		UUID: "reader-" + user, Username: "Reader " + user, Novel: c.titles[(i%c.stride+turn*c.stride)%len(c.titles)], Content: load.Content(rng),
		Timestamp: time.Date(2025, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339),
	}
	if chapter := rng.IntN(400); chapter < 300 {
		number := float64(chapter) / 2 // every other one is an interlude
		made.ChapterNumber = &number
	}
	// The first comment on a novel has nothing to answer: the others make up for it.
	if first := span * c.stride; i >= first && rng.Float64() < replies*float64(c.n)/float64(c.n-first) {
		made.ParentUUID = commentKey(i - first)
	}
	return made
}

// Comments imports n comments on the titles.
func (c *Client) Comments(ctx context.Context, titles []string, n int) (*Report, error) {
	if len(titles) == 0 {
		n = 0
	}
	comments := composer{titles, n, c.Connections}
	report, err := c.share(ctx, n, func(ctx context.Context, i int) (answer, error) {
		return c.send(ctx, "/api/integrations/posts", commentKey(i), comments.compose(i))
	})
	if err != nil {
		return nil, fmt.Errorf("import comments: %w", err)
	}
	return report, nil
}
