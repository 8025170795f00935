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

	"novelgate/internal/bench/catalogue"
	"novelgate/internal/bench/load"
	"novelgate/internal/bench/stats"
)

// VisibleCommand is `bench visible`.
type VisibleCommand struct {
	ArenaFlags
	Comments   int           `default:"500" help:"Comments to send, one after another."`
	Pause      time.Duration `default:"20ms" help:"Rest after a comment has become visible."`
	ServeFlags []string      `name:"serve-flag" sep:"none" placeholder:"FLAG" help:"Further flags of novelgate serve."`
}

// Run prints how long it takes until a lone comment is answered, which is after its commit, and from there until it is
// in analytics.posts.
func (c *VisibleCommand) Run(in *invocation) error {
	return c.withService(in, serviceSetup{flags: c.ServeFlags}, func(a arenaOfOne) error { return c.measure(in, a) })
}

func (c *VisibleCommand) measure(in *invocation, a arenaOfOne) error {
	conn, err := pgx.Connect(in.ctx, a.database.DatabaseURL())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(in.ctx)) //nolint:errcheck // nothing was written
	client := &catalogue.Client{URL: "http://" + a.service.Host(), APIKey: a.database.APIKey(), HTTP: http.DefaultClient}
	answered, visible := make([]time.Duration, c.Comments), make([]time.Duration, c.Comments)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same comments each time
	for i := range c.Comments {
		comment := map[string]string{
			"uuid": "reader", "username": "Reader", "novel": load.Title(random.IntN(c.Titles)), "content": load.Content(random),
		}
		sent := in.now()
		id, err := client.Import(in.ctx, uuid.NewString(), comment)
		if err != nil {
			return fmt.Errorf("import a comment: %w", err)
		}
		committed := in.now()
		answered[i] = committed.Sub(sent)
		if err := awaitPost(in.ctx, conn, id); err != nil {
			return err
		}
		visible[i] = in.now().Sub(committed)
		time.Sleep(c.Pause)
	}
	text := fmt.Sprintf("%d comments, each %v after the one before was visible\n%45s%10s\n", c.Comments, c.Pause,
		"p50, ms", "p99, ms")
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"from sending to the answer", answered}, {"from the answer to analytics.posts", visible}} {
		slices.Sort(row.took)
		text += fmt.Sprintf("%-35s%10.2f%10.2f\n", row.name, milliseconds(stats.Percentile(row.took, 50)),
			milliseconds(stats.Percentile(row.took, 99)))
	}
	return in.print(text)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

var errInvisible = errors.New("the comment has not become visible within ten seconds")

// awaitPost returns when analysts see a post.
func awaitPost(ctx context.Context, conn *pgx.Conn, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errInvisible)
	defer cancel()
	for {
		var found bool
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM analytics.posts WHERE post_id = $1)`, id).Scan(&found)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("look for post %s: %w", id, context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("look for post %s: %w", id, err)
		case found:
			return nil
		}
		time.Sleep(200 * time.Microsecond)
	}
}
