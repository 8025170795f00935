package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/contest"
	"novelgate/internal/database"
	"novelgate/readapi/queries"
)

// ReadCommand is `bench read`.
type ReadCommand struct {
	ArenaFlags
	Connections int           `default:"64" help:"Keep-alive connections."`
	Comments    int           `default:"20000" help:"How many comments the discussion has."`
	Rounds      int           `default:"5" help:"Rounds of each contestant."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
	Profile     string        `placeholder:"FILE" help:"Save a CPU profile of the service, half of it pages and half of it JSON."`
}

// The novel with the large discussion. Its pages of tops top-level comments hold 50 comments.
const (
	slug = "a-big-discussion"
	tops = 10
)

//go:embed fill.sql
var fillSQL string

// Run prints what JSON and pages of a discussion cost beside printing the rows of the same statement.
func (c *ReadCommand) Run(ctx context.Context) error {
	c.Titles = 1
	c.ServeFlags = append(c.ServeFlags, "--readers", strconv.Itoa(c.Connections)) // no 503 for one too many
	return c.run(ctx, true, nil, func(a withService) error { return c.measure(ctx, a) })
}

func (c *ReadCommand) measure(ctx context.Context, a withService) (err error) {
	conn, err := pgx.Connect(ctx, a.database.URL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = conn.Exec(ctx, fillSQL, c.Comments)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("fill the discussion: %w", err)
	}
	peer, err := a.StartReadPeer(ctx, a.database, slug)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.Stop(context.WithoutCancel(ctx))) }()
	path := "/novels/" + slug + "/discussion?limit=" + strconv.Itoa(tops)
	all := []*contest.Contestant{a.service.Reading("JSON", "/api"+path), a.service.Reading("page", path), peer}
	if c.Profile != "" {
		return profiled(ctx, a.service, "profile", 2*c.Duration, c.Profile, func(ctx context.Context) error {
			_, err := a.Rounds(ctx, all[:2], c.Connections, 0, c.Duration)
			return err
		})
	}
	rounds, err := a.Rounds(ctx, all, c.Connections, c.Rounds, c.Duration)
	if err != nil {
		return err
	}
	for i := range 2 {
		table, err := contest.Table([2]string{all[i].Name, peer.Name}, rounds[i], rounds[2])
		if err != nil {
			return err
		}
		fmt.Printf("\nA page of 50 comments out of %d; %d connections, %d rounds of %v\n%s", c.Comments, c.Connections,
			c.Rounds, c.Duration, table)
	}
	return nil
}

// ReadPeerCommand is the process of the handler that readers are compared with.
type ReadPeerCommand struct {
	DatabaseURL string `name:"database-url" required:""`
	Slug        string `required:""`
}

// Run serves until a signal comes, over the same pool as the service has.
func (c *ReadPeerCommand) Run(ctx context.Context) error {
	return serve(ctx, func(string) (http.Handler, func(), error) {
		pools, err := database.Open(ctx, c.DatabaseURL, 1, database.DefaultConnections(1))
		if err != nil {
			return nil, nil, fmt.Errorf("open pools: %w", err)
		}
		return readPeer(pools.Read, c.Slug), pools.Close, nil
	})
}

// readPeer runs the statement of the first page of a discussion and prints its rows as text, one column after the
// other: the least that a page can cost which is read and not remembered.
func readPeer(pool *pgxpool.Pool, slug string) http.Handler {
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// One less: the service reads one top-level comment more than it shows, and this handler is spared that.
		sql, args := queries.Statement(queries.DiscussionParams{Slug: slug, Newest: true, Limit: tops - 1})
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
		_, _ = w.Write(buffer.Bytes()) // a failing connection is the client's affair
	})
}

func printRows(buffer *bytes.Buffer, rows pgx.Rows) error {
	var (
		novel, thread, post, parent, root, author pgtype.UUID
		slug, title, state, language, cover       string
		depth                                     int
		written, received                         pgtype.Timestamptz
		hidden, cut                               bool
		chapter, content, member, name, platform  pgtype.Text
	)
	columns := []any{
		&novel, &slug, &title, &state, &language, &cover, &thread, &post, &parent, &root, &depth, &chapter, &written,
		&received, &author, &hidden, &cut, &content, &member, &name, &platform,
	}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		_, err := fmt.Fprintln(buffer, post.String(), parent.String(), depth, chapter.String, written.Time, hidden,
			name.String, platform.String, content.String)
		return err
	})
	return err //nolint:wrapcheck // the handler prints it
}
