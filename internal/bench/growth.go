package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/bench/contest"
)

// GrowthCommand is `bench growth`.
type GrowthCommand struct {
	ArenaFlags
	Events      int               `default:"1000000" help:"Comments to deliver through the service."`
	Step        int               `default:"500000" help:"Comments in a step; each step prints a line."`
	Connections int               `default:"256" help:"Keep-alive connections."`
	Settings    map[string]string `name:"setting" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Settings of the database server, such as --setting=wal_compression=lz4 (default: those of the embedded server)."`
	Discussion  int               `default:"100000" placeholder:"N" help:"Then let one discussion grow by N comments while the service is stopped, let the projections catch up, and read the discussion; 0 leaves this out."`
	Pairs       int               `default:"5" help:"Then measure so many pairs of rounds against the CRUD peer with as many rows; 0 leaves this out."`
	Duration    time.Duration     `default:"2s" help:"Length of a round of reading, and against the peer."`
	Verify      bool              `default:"true" negatable:"" help:"At last run novelgate events verify."`
}

// growth is a running GrowthCommand.
type growth struct {
	*GrowthCommand
	withService
	admin *pgx.Conn
}

// Run prints what comments cost while the database grows, and what it does when it is large.
func (c *GrowthCommand) Run(ctx context.Context) (err error) {
	g := growth{GrowthCommand: c}
	if g.Arena, err = c.open(ctx, c.Settings); err != nil {
		return err
	}
	stopping := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, g.Close(stopping)) }()
	if g.database, err = g.NewService(ctx, "bench_service", ""); err != nil {
		return err
	}
	if g.admin, err = pgx.Connect(ctx, g.database.URL); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer g.admin.Close(stopping) //nolint:errcheck // nothing was written
	if err := g.serving(ctx, g.fill); err != nil {
		return err
	}
	if c.Discussion > 0 {
		// Comments arrive while the service is stopped: the projections then have to catch up with them.
		if err := contest.FillLog(ctx, g.database, 1, c.Discussion); err != nil {
			return err
		}
		if err := g.serving(ctx, g.read); err != nil {
			return err
		}
	}
	if c.Pairs > 0 {
		if err := g.serving(ctx, g.duel); err != nil {
			return err
		}
	}
	if !c.Verify {
		return nil
	}
	fmt.Println("\nnovelgate events verify")
	return g.Command(ctx, "events", "verify", "--database-url", g.database.URL)
}

// serving runs the service during phase, which gets the time when the service was started.
func (g *growth) serving(ctx context.Context, phase func(ctx context.Context, started time.Time) error) (err error) {
	started := time.Now()
	if g.service, err = g.StartService(ctx, g.database, "", false, g.ServeFlags...); err != nil {
		return err
	}
	return errors.Join(phase(ctx, started), g.service.Stop(context.WithoutCancel(ctx)))
}

// fill delivers the comments, step by step.
func (g *growth) fill(ctx context.Context, _ time.Time) error {
	const header = "\n%26s%16s%45s%20s%13s\n%10s%8s%8s%9s%7s%8s%8s%8s%7s%7s%7s%8s%12s%13s\n"
	fmt.Printf(header, "", "CPU/comment, µs", "disk bytes/comment", "WAL/comment", "checkpoints",
		"comments", "per s", "p99 ms", "service", "db", "total", "events", "indexes", "posts", "ledger", "rest",
		"bytes", "full pages", "timed, asked")
	before, err := g.footprint(ctx)
	if err != nil {
		return err
	}
	first, settled := before, time.Duration(0)
	for done := 0; done < g.Events; {
		n := min(g.Step, g.Events-done)
		figures, err := g.Deliver(ctx, g.service, g.Connections, n)
		if err != nil {
			return err
		}
		after, err := g.footprint(ctx)
		if err != nil {
			return err
		}
		done += n
		settled = max(settled, figures.CatchUp)
		fmt.Printf("%10d%8.0f%8.1f%9.1f%7.1f%s\n", done, figures.PerSecond, figures.P99.Seconds()*1e3,
			figures.Service.Seconds()*1e6, figures.Database.Seconds()*1e6, after.since(before, n))
		for what, n := range figures.Failed {
			fmt.Printf("FAILED: %d × %s\n", n, what)
		}
		before = after
	}
	fmt.Printf("%10s%8s%8s%9s%7s%s\n", "all", "", "", "", "", before.since(first, g.Events))
	fmt.Printf("Projections were at most %v behind the end of a step. The database has %.2f GB.\n",
		settled.Round(time.Millisecond), before.total/1e9)
	return g.service.Audit(ctx)
}

// footprint is what the database takes, in bytes, and what the server has counted since it was started.
type footprint struct {
	total, events, indexes, posts, ledger float64
	wal, fullPages                        float64
	timed, asked                          int
}

const footprintSQL = `SELECT pg_database_size(current_database()), pg_table_size('events'), pg_indexes_size('events'),
       pg_total_relation_size('posts'),
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname LIKE 'ledger\_%'),
       w.wal_bytes::float8, w.wal_fpi, c.timed, c.asked
FROM pg_stat_wal w, `

// Where PostgreSQL counts checkpoints: until version 16, and since 17.
const (
	checkpointsSQL      = `(SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter) AS c (timed, asked)`
	newerCheckpointsSQL = `(SELECT num_timed, num_requested FROM pg_stat_checkpointer) AS c (timed, asked)`
)

func (g *growth) footprint(ctx context.Context) (f footprint, err error) {
	var newer bool
	const newerSQL = `SELECT to_regclass('pg_catalog.pg_stat_checkpointer') IS NOT NULL`
	if err := g.admin.QueryRow(ctx, newerSQL).Scan(&newer); err != nil {
		return f, fmt.Errorf("look at the statistics of the server: %w", err)
	}
	checkpoints := checkpointsSQL
	if newer {
		checkpoints = newerCheckpointsSQL
	}
	err = g.admin.QueryRow(ctx, footprintSQL+checkpoints).Scan(&f.total, &f.events, &f.indexes, &f.posts, &f.ledger,
		&f.wal, &f.fullPages, &f.timed, &f.asked)
	if err != nil {
		return f, fmt.Errorf("measure the database: %w", err)
	}
	return f, nil
}

func (f footprint) rest() float64 { return f.total - f.events - f.indexes - f.posts - f.ledger }

// since is what n comments have added to an earlier footprint.
func (f footprint) since(earlier footprint, n int) string {
	per := func(now, then float64) float64 { return (now - then) / float64(n) }
	return fmt.Sprintf("%8.0f%8.0f%8.0f%7.0f%7.0f%7.0f%8.0f%12.3f%13s", per(f.total, earlier.total),
		per(f.events, earlier.events), per(f.indexes, earlier.indexes), per(f.posts, earlier.posts),
		per(f.ledger, earlier.ledger), per(f.rest(), earlier.rest()), per(f.wal, earlier.wal),
		per(f.fullPages, earlier.fullPages),
		fmt.Sprintf("%d, %d", f.timed-earlier.timed, f.asked-earlier.asked))
}

// The largest discussion, and a comment in the middle of it.
const largestSQL = `WITH largest AS (
    SELECT novel_id, thread_id, count(*) FROM posts GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 1
)
SELECT t.slug, l.count, (SELECT p.post_id FROM posts p WHERE p.thread_id = l.thread_id ORDER BY p.written_at, p.post_id
                         OFFSET l.count / 2 LIMIT 1)::text
FROM largest l JOIN title_lookup t USING (novel_id)`

// read measures catching up with a discussion, and readers of it.
func (g *growth) read(ctx context.Context, started time.Time) error {
	const readers = 8 // at a time
	if _, err := g.service.Settle(ctx); err != nil {
		return err
	}
	fmt.Printf("\nStarted again, with %d more comments in one discussion: caught up with them after %v.\n", g.Discussion,
		time.Since(started).Round(time.Millisecond))
	var slug, post string
	var comments int
	if err := g.admin.QueryRow(ctx, largestSQL).Scan(&slug, &comments, &post); err != nil {
		return fmt.Errorf("find the largest discussion: %w", err)
	}
	path := "/novels/" + slug + "/discussion"
	ways := []*contest.Contestant{
		g.service.Reading("page", path), g.service.Reading("link to a comment", path+"?post="+post),
	}
	rounds, err := g.Rounds(ctx, ways, readers, 1, g.Duration)
	if err != nil {
		return err
	}
	fmt.Printf("\nA discussion of %d comments, %d readers at a time\n", comments, readers)
	for i, way := range ways {
		fmt.Print(contest.Line(way.Name, rounds[i][0]))
	}
	return nil
}

// duel measures ingest against the CRUD peer with as many rows.
func (g *growth) duel(ctx context.Context, _ time.Time) (err error) {
	const pool = 32 // as of bench compare
	database, err := g.NewPeer(ctx, "bench_peer")
	if err != nil {
		return err
	}
	peer, err := g.StartPeer(ctx, database, pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.Stop(context.WithoutCancel(ctx))) }()
	if err := errors.Join(g.PreloadPeer(ctx, database, g.Events+g.Discussion), g.Checkpoint(ctx)); err != nil {
		return err
	}
	both := []*contest.Contestant{g.service, peer}
	rounds, err := g.Rounds(ctx, both, g.Connections, g.Pairs, g.Duration)
	if err != nil {
		return err
	}
	table, err := contest.Table([2]string{both[0].Name, both[1].Name}, rounds[0], rounds[1])
	if err != nil {
		return err
	}
	fmt.Printf("\nWith %d comments each; connections: %d; %d pairs of %v\n%s", g.Events+g.Discussion, g.Connections,
		g.Pairs, g.Duration, table)
	return errors.Join(g.service.Audit(ctx), peer.Audit(ctx))
}
