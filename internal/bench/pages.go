package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// pagesCommand is `bench pages`.
type pagesCommand struct {
	testbedFlags
	Events      int  `default:"1000000" help:"Comments of the large database, which has --titles novels. The small one has 1,000 comments on 20 novels."`
	Connections int  `default:"4" help:"Keep-alive connections."`
	Requests    int  `default:"600" help:"Requests for each kind of page, each for another novel or comment."`
	Rounds      int  `default:"5" help:"Rounds; the table has their medians."`
	Hold        bool `help:"Then print the addresses of the databases, and keep them until a signal."`
}

// Size of the small database: each novel has enough comments for a full page.
const smallTitles, smallComments = 20, 1000

// pageKind is a kind of page. {slug}, {post}, {title} and {part} in its path stand for values of samplesSQL.
type pageKind struct{ name, path string }

var pageKinds = []pageKind{
	{"home", "/"},
	{"novels by activity", "/novels"},
	{"newest novels", "/novels?sort=newest"},
	{"novels by title", "/novels?sort=title"},
	{"search, a title", "/novels?q={title}"},
	{"search, many titles", "/novels?q=ook"},
	{"search, no title", "/novels?q=zzz"},
	{"genre without novels", "/novels?genre=None"},
	{"language without novels", "/novels?language=xx"},
	{"novel", "/novels/{slug}"},
	{"discussion", "/novels/{slug}/discussion"},
	{"discussion, oldest first", "/novels/{slug}/discussion?sort=oldest"},
	{"comments on a chapter", "/novels/{slug}/discussion?chapter=none&limit=5"},
	{"link to a comment", "/novels/{slug}/discussion?post={post}"},
	{"feed of a novel", "/novels/{slug}/feed.atom"},
	{"feed", "/feed.atom"},
	{"part of the sitemap", "/sitemaps/{part}"},
}

// samplesSQL returns the values for paths, of 1,000 random comments. {title} is the second half of a title, {part} the
// part of the sitemap with the novel.
const samplesSQL = `SELECT ARRAY['{slug}', t.slug, '{post}', p.post_id::text,
       '{title}', replace(split_part(t.folded_title, ', ', 2), ' ', '+'),
       '{part}', get_byte(uuid_send(t.novel_id), 0)::text]
FROM (SELECT post_id, novel_id FROM posts ORDER BY random() LIMIT 1000) AS p JOIN title_lookup t USING (novel_id)`

// Run measures each kind of page, alternately on a small and on a large database.
func (c *pagesCommand) Run(ctx context.Context) error {
	large := max(c.Titles, smallTitles)
	return c.withTestbed(ctx, nil, func(t *testbed) error {
		return t.runFilled(ctx, "small", smallTitles, smallComments, func(small *contestant) error {
			return t.runFilled(ctx, "large", large, c.Events, func(large *contestant) error {
				if err := c.compare(ctx, small, large); err != nil || !c.Hold {
					return err
				}
				fmt.Printf("\n%s %s\n%s %s\n", small.url, small.databaseURL, large.url, large.databaseURL)
				<-ctx.Done()
				return nil
			})
		})
	})
}

// runFilled runs a service with n comments in its database.
func (t *testbed) runFilled(ctx context.Context, name string, titles, n int, use func(c *contestant) error) error {
	t.Titles = titles
	s, err := t.newService(ctx, name, t.Binary, t.ServeFlags)
	if err != nil {
		return err
	}
	return s.whileRunning(ctx, false, func() error {
		if err := s.preload(ctx, n-titles); err != nil {
			return err
		}
		return use(s)
	})
}

func (c *pagesCommand) compare(ctx context.Context, small, large *contestant) error {
	fmt.Printf("\n%-26s%25s%25s%8s\n%-26s%10s%15s%10s%15s%8s\n", "", small.name, large.name, "", "ms", "p50", "p99", "p50",
		"p99", "ratio")
	var samples [2][][]string
	for i, s := range []*contestant{small, large} {
		rows, _ := s.conn.Query(ctx, samplesSQL) // CollectRows returns its error
		var err error
		if samples[i], err = pgx.CollectRows(rows, pgx.RowTo[[]string]); err != nil {
			return fmt.Errorf("sample comments: %w", err)
		}
	}
	for _, kind := range pageKinds {
		var p50, p99 [2][]float64         // milliseconds
		for round := range c.Rounds + 1 { // the first warms up
			for i, s := range []*contestant{small, large} {
				took, err := s.readPages(ctx, kind.path, samples[i], c.Connections, c.Requests)
				if err != nil {
					return fmt.Errorf("read %s of %s: %w", kind.name, s.name, err)
				}
				if round > 0 {
					p50[i] = append(p50[i], millis(percentile(took, 50)))
					p99[i] = append(p99[i], millis(percentile(took, 99)))
				}
			}
		}
		fmt.Printf("%-26s%10.2f%15.2f%10.2f%15.2f%8.2f\n", kind.name, median(p50[0]), median(p99[0]), median(p50[1]),
			median(p99[1]), median(ratios(p99[1], p99[0])))
	}
	return nil
}

// readPages requests n pages of a kind and returns the sorted times that they took.
func (c *contestant) readPages(
	ctx context.Context, path string, samples [][]string, connections, n int,
) ([]time.Duration, error) {
	var mu sync.Mutex
	var took []time.Duration
	group, ctx := errgroup.WithContext(ctx)
	for i := range connections {
		group.Go(func() error {
			client := http.Client{Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for j := i; j < n; j += connections {
				address := c.url + strings.NewReplacer(samples[j%len(samples)]...).Replace(path)
				begun := time.Now()
				if err := get(ctx, &client, address, io.Discard); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(took)
	return took, nil
}

// get writes the body of a page to out.
func get(ctx context.Context, client *http.Client, address string, out io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("get %s: %w", address, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read from
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d of %s", errAnswer, response.StatusCode, address)
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("get %s: %w", address, err)
	}
	return nil
}
