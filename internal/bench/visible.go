package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

// Run prints how long it takes until a lone comment is answered, which is after its commit, and from there until it is in analytics.posts.
func (c *VisibleCommand) Run(in *invocation) error {
	return c.withService(in, serviceSetup{flags: c.ServeFlags}, func(a arenaOfOne) error { return c.measure(in, a) })
}

func (c *VisibleCommand) measure(in *invocation, a arenaOfOne) error {
	conn, err := pgx.Connect(in.ctx, a.database.DatabaseURL())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(in.ctx)) //nolint:errcheck // nothing was written
	answered, visible := make([]time.Duration, c.Comments), make([]time.Duration, c.Comments)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same comments each time
	for i := range c.Comments {
		sent := in.now()
		id, err := importComment(in.ctx, a.service.Host(), a.database.APIKey(), load.Title(random.IntN(c.Titles)), load.Content(random))
		if err != nil {
			return err
		}
		committed := in.now()
		answered[i] = committed.Sub(sent)
		if err := awaitPost(in.ctx, conn, id); err != nil {
			return err
		}
		visible[i] = in.now().Sub(committed)
		time.Sleep(c.Pause)
	}
	text := fmt.Sprintf("%d comments, each %v after the one before was visible\n%45s%10s\n", c.Comments, c.Pause, "p50, ms", "p99, ms")
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"from sending to the answer", answered}, {"from the answer to analytics.posts", visible}} {
		slices.Sort(row.took)
		text += fmt.Sprintf("%-35s%10.2f%10.2f\n", row.name, milliseconds(stats.Percentile(row.took, 50)), milliseconds(stats.Percentile(row.took, 99)))
	}
	return in.print(text)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// importComment sends a comment and returns the id of its post.
func importComment(ctx context.Context, host, apiKey, title, content string) (id uuid.UUID, err error) {
	body, err := json.Marshal(map[string]string{"uuid": "reader", "username": "Reader", "novel": title, "content": content})
	if err != nil {
		return id, fmt.Errorf("encode comment: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/api/integrations/posts", bytes.NewReader(body))
	if err != nil {
		return id, fmt.Errorf("send comment: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", uuid.NewString())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return id, fmt.Errorf("send comment: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // read as far as it matters
	var answer struct {
		PostID uuid.UUID `json:"postId"`
	}
	if response.StatusCode != http.StatusCreated {
		return id, fmt.Errorf("send comment: status %d", response.StatusCode)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return id, fmt.Errorf("read answer: %w", err)
	}
	return answer.PostID, nil
}

var errInvisible = errors.New("the comment has not become visible within ten seconds")

// awaitPost returns when analysts see a post.
func awaitPost(ctx context.Context, conn *pgx.Conn, id uuid.UUID) error {
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
