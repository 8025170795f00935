package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/readapi"
)

// readCommand is `bench read`.
type readCommand struct {
	testbedFlags
	Connections int           `default:"64" help:"Keep-alive connections."`
	Comments    int           `default:"20000" help:"How many comments the discussion has."`
	Rounds      int           `default:"5" help:"Rounds of each contestant."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
	Profile     string        `placeholder:"FILE" help:"Save a CPU profile of the service, half of it pages and half of it JSON."`
}

// The large discussion. A page of ten top-level comments with their replies has 50 comments.
const (
	slug     = "a-big-discussion"
	topLevel = 10
)

//go:embed fill.sql
var fillSQL string

// Run compares the cost of JSON and pages of a discussion with printing the rows of the same statement.
func (c *readCommand) Run(ctx context.Context) error {
	c.Titles = 1
	c.ServeFlags = append(c.ServeFlags, "--readers", strconv.Itoa(c.Connections)) // otherwise some requests would get 503
	return c.withService(ctx, true, nil, func(s *contestant) error {
		if _, err := s.conn.Exec(ctx, fillSQL, c.Comments); err != nil {
			return fmt.Errorf("fill the discussion: %w", err)
		}
		path := "/novels/" + slug + "/discussion?limit=" + strconv.Itoa(topLevel)
		readers := []*contestant{s.reader("JSON", "/api"+path), s.reader("page", path)}
		if c.Profile != "" {
			return s.profileWhile(ctx, "profile", 2*c.Duration, c.Profile, func(ctx context.Context) error {
				_, err := alternate(ctx, readers, c.Connections, 0, c.Duration)
				return err
			})
		}
		peer := &contestant{
			testbed: s.testbed, name: "the statement, printed", path: "/",
			command: []string{s.self, "read-peer", "--database-url", s.databaseURL},
		}
		return peer.whileRunning(ctx, false, func() error { return c.compare(ctx, append(readers, peer)) })
	})
}

func (c *readCommand) compare(ctx context.Context, all []*contestant) error {
	rounds, err := alternate(ctx, all, c.Connections, c.Rounds, c.Duration)
	if err != nil {
		return err
	}
	for i := range 2 {
		fmt.Printf("\nA page of 50 comments out of %d; %d connections, %d rounds of %v\n%s", c.Comments, c.Connections,
			c.Rounds, c.Duration, table([2]string{all[i].name, all[2].name}, rounds[i], rounds[2]))
	}
	return nil
}

// readPeerCommand runs the handler that readers are compared with.
type readPeerCommand struct {
	DatabaseURL string `required:""`
}

// Run serves until a signal, with a pool like that of the service.
func (c *readPeerCommand) Run(ctx context.Context) error {
	return serve(ctx, func(string) (http.Handler, func(), error) {
		pools, err := database.Open(ctx, c.DatabaseURL, database.DefaultConnections)
		if err != nil {
			return nil, nil, fmt.Errorf("open pools: %w", err)
		}
		return readPeer(pools.Read), pools.Close, nil
	})
}

// readPeer executes the statement of the first page of a discussion and prints its rows as text: the minimum cost of a
// page that is not cached.
func readPeer(pool *pgxpool.Pool) http.Handler {
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// One less, because the service reads one more top-level comment than it shows.
		sql, args := readapi.Statement(readapi.DiscussionParams{Slug: slug, Newest: true, Limit: topLevel - 1})
		rows, _ := pool.Query(r.Context(), sql, args...) // printRows returns its error
		buffer, _ := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(buffer)
		buffer.Reset()
		if err := printRows(buffer, rows); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(buffer.Len()))
		_, _ = w.Write(buffer.Bytes()) // an error means that the client disconnected
	})
}

func printRows(buffer *bytes.Buffer, rows pgx.Rows) error {
	var (
		post, parent                      pgtype.UUID
		depth                             int
		written                           pgtype.Timestamptz
		hidden                            bool
		chapter, personal, name, platform pgtype.Text
	)
	columns := []any{ // of readapi/discussion.sql; it does not print the nil ones
		nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, &post, &parent, nil, &depth, &chapter, &written, nil, nil,
		&hidden, nil, &personal, nil, &name, &platform,
	}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		_, err := fmt.Fprintln(buffer, post.String(), parent.String(), depth, chapter.String, written.Time, hidden,
			name.String, platform.String, personal.String)
		return err
	})
	return err
}
