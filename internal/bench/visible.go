package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/bench/contest"
)

// VisibleCommand is `bench visible`.
type VisibleCommand struct {
	ArenaFlags
	Comments int           `default:"500" help:"Comments to send, one after another."`
	Pause    time.Duration `default:"20ms" help:"Rest after a comment has become visible."`
}

// Run prints how long it takes until a lone comment is answered, which is after its commit, and from there until it is
// in analytics.posts.
func (c *VisibleCommand) Run(ctx context.Context) error {
	return c.run(ctx, false, nil, func(a withService) error { return c.measure(ctx, a) })
}

var errNotStored = errors.New("the comment was not accepted")

func (c *VisibleCommand) measure(ctx context.Context, a withService) error {
	conn, err := pgx.Connect(ctx, a.database.URL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	client := &partner{url: a.service.URL, apiKey: a.database.APIKey, http: http.DefaultClient}
	answered, visible := make([]time.Duration, c.Comments), make([]time.Duration, c.Comments)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same comments each time
	for i := range c.Comments {
		sent := time.Now()
		post, err := client.send(ctx, postsPath, uuid.NewString(), comment{
			UUID: "reader", Username: "Reader", Novel: contest.Title(random.IntN(c.Titles)), Content: contest.Content(random),
		})
		if err != nil || !post.Created {
			return errors.Join(errNotStored, err)
		}
		committed := time.Now()
		answered[i] = committed.Sub(sent)
		if err := awaitPost(ctx, conn, post.PostID); err != nil {
			return err
		}
		visible[i] = time.Since(committed)
		time.Sleep(c.Pause)
	}
	fmt.Printf("%d comments, each %v after the one before was visible\n%45s%10s\n", c.Comments, c.Pause,
		"p50, ms", "p99, ms")
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"from sending to the answer", answered}, {"from the answer to analytics.posts", visible}} {
		slices.Sort(row.took)
		fmt.Printf("%-35s%10.2f%10.2f\n", row.name, contest.Percentile(row.took, 50).Seconds()*1e3,
			contest.Percentile(row.took, 99).Seconds()*1e3)
	}
	return nil
}

var errInvisible = errors.New("the comment has not become visible within ten seconds")

// awaitPost returns when analysts see a post.
func awaitPost(ctx context.Context, conn *pgx.Conn, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errInvisible)
	defer cancel()
	for found := false; !found; time.Sleep(200 * time.Microsecond) {
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM analytics.posts WHERE post_id = $1)`, id).Scan(&found)
		if err != nil {
			return fmt.Errorf("look for post %s: %w", id, errors.Join(err, context.Cause(ctx)))
		}
	}
	return nil
}
