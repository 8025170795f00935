package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// visibleCommand is `bench visible`.
type visibleCommand struct {
	arenaFlags
	Comments int           `default:"500" help:"Comments to send, one after another."`
	Pause    time.Duration `default:"20ms" help:"Rest after a comment has become visible."`
}

// Run prints how long it takes until a lone comment is answered, which is after its commit, and from there until it is
// in analytics.posts.
func (c *visibleCommand) Run(ctx context.Context) error {
	return c.runService(ctx, false, nil, func(s *contestant) error { return c.measure(ctx, s) })
}

func (c *visibleCommand) measure(ctx context.Context, s *contestant) error {
	config := s.load()
	config.Connections, config.Round = 1, 1
	l, err := openLoad(ctx, config)
	if err != nil {
		return err
	}
	defer l.close()
	client := l.clients[0]
	answered, visible := make([]time.Duration, c.Comments), make([]time.Duration, c.Comments)
	for i := range c.Comments {
		title := l.titles[client.composer.rng.IntN(c.Titles)]
		request := client.composer.compose(newOrigin(config.Round, 0, i), title, false, 0, time.Now())
		sent := time.Now()
		status, body, err := client.exchange(request)
		if err != nil || status != http.StatusCreated {
			return errors.Join(fmt.Errorf("the comment is answered with %d: %s", status, body), err)
		}
		committed := time.Now()
		answered[i] = committed.Sub(sent)
		var post struct{ PostID string }
		if err := json.Unmarshal(body, &post); err != nil {
			return fmt.Errorf("decode the answer: %w", err)
		}
		if err := s.awaitPost(ctx, post.PostID); err != nil {
			return err
		}
		visible[i] = time.Since(committed)
		time.Sleep(c.Pause)
	}
	fmt.Printf("%d comments, each %v after the one before was visible\n%45s%10s\n", c.Comments, c.Pause,
		"p50, ms", "p99, ms")
	for i, name := range []string{"from sending to the answer", "from the answer to analytics.posts"} {
		took := [][]time.Duration{answered, visible}[i]
		slices.Sort(took)
		fmt.Printf("%-35s%10.2f%10.2f\n", name, millis(percentile(took, 50)), millis(percentile(took, 99)))
	}
	return nil
}

// awaitPost returns when analysts see a post.
func (c *contestant) awaitPost(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("it is not visible within ten seconds"))
	defer cancel()
	for found := false; !found; time.Sleep(200 * time.Microsecond) {
		err := c.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM analytics.posts WHERE post_id = $1)`, id).Scan(&found)
		if err != nil {
			return fmt.Errorf("look for post %s: %w", id, errors.Join(err, context.Cause(ctx)))
		}
	}
	return nil
}
