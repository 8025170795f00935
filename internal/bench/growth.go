package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"novelgate/internal/child"
)

// growthCommand is `bench growth`.
type growthCommand struct {
	testbedFlags
	Events      int               `default:"1000000" help:"Comments to deliver through the service."`
	Step        int               `default:"500000" help:"Comments in a step. Each step prints a line."`
	Connections int               `default:"256" help:"Keep-alive connections."`
	Settings    map[string]string `name:"setting" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Settings of the database server, such as --setting=wal_compression=lz4 (default: those of the embedded server)."`
	Discussion  int               `default:"100000" placeholder:"N" help:"Then let one discussion grow by N comments while the service is stopped, let the projections catch up, and read the discussion; 0 leaves this out."`
	Duration    time.Duration     `default:"2s" help:"Length of a round of reading."`
}

// Run prints the cost of comments while the database grows, and then measures the large database.
func (c *growthCommand) Run(ctx context.Context) error {
	return c.withTestbed(ctx, c.Settings, func(t *testbed) error {
		s, err := t.newService(ctx, "novelgate", t.Binary, t.ServeFlags)
		if err != nil {
			return err
		}
		if err := s.whileRunning(ctx, false, func() error { return c.deliver(ctx, s) }); err != nil {
			return err
		}
		if c.Discussion > 0 {
			// Fill the log while the service is stopped, so that the projections have to catch up.
			if err := s.fillLog(ctx, 1, c.Discussion); err != nil {
				return err
			}
			started := time.Now()
			if err := s.whileRunning(ctx, false, func() error { return c.read(ctx, s, started) }); err != nil {
				return err
			}
		}
		fmt.Println("\nnovelgate events verify")
		verify := child.Command(ctx, t.Binary, "events", "verify", "--database-url", s.databaseURL)
		verify.Stdout = os.Stdout
		return verify.Run()
	})
}

// deliver delivers the comments, step by step.
func (c *growthCommand) deliver(ctx context.Context, s *contestant) error {
	const header = "\n%26s%16s%45s%20s%13s\n%10s%8s%8s%9s%7s%8s%8s%8s%7s%7s%7s%8s%12s%13s\n"
	fmt.Printf(header, "", "CPU/comment, µs", "disk bytes/comment", "WAL/comment", "checkpoints",
		"comments", "per s", "p99 ms", "service", "db", "total", "events", "indexes", "posts", "ledger", "rest",
		"bytes", "full pages", "timed, asked")
	before, err := s.footprint(ctx)
	if err != nil {
		return err
	}
	first, slowest := before, time.Duration(0)
	for done := 0; done < c.Events; {
		n := min(c.Step, c.Events-done)
		f, err := s.deliver(ctx, c.Connections, n)
		if err != nil {
			return err
		}
		after, err := s.footprint(ctx)
		if err != nil {
			return err
		}
		done += n
		slowest = max(slowest, f.catchUp)
		fmt.Printf("%10d%8.0f%8.1f%9.1f%7.1f%s\n%s", done, f.perSecond, millis(f.p99), micros(f.service), micros(f.database),
			after.since(before, n), failures(s.name, f))
		before = after
	}
	fmt.Printf("%10s%8s%8s%9s%7s%s\n", "all", "", "", "", "", before.since(first, c.Events))
	fmt.Printf("Projections were at most %v behind the end of a step. The database has %.2f GB.\n",
		slowest.Round(time.Millisecond), before.total/1e9)
	return s.checkStored(ctx)
}

// footprint is the size of the database in bytes and the counters of the server since its start.
type footprint struct {
	total, events, indexes, posts, ledger float64
	wal, fullPages                        float64
	timed, asked                          int // checkpoints by checkpoint_timeout, and others
}

// PostgreSQL counts checkpoints in pg_stat_bgwriter up to version 16, and in pg_stat_checkpointer since 17.
const footprintSQL = `SELECT pg_database_size(current_database()), pg_table_size('events'), pg_indexes_size('events'),
       pg_total_relation_size('posts'),
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname LIKE 'ledger\_%'),
       w.wal_bytes::float8, w.wal_fpi, c.timed, c.asked
FROM pg_stat_wal w, `

const (
	checkpointsSQL      = `(SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter) AS c (timed, asked)`
	newerCheckpointsSQL = `(SELECT num_timed, num_requested FROM pg_stat_checkpointer) AS c (timed, asked)`
)

func (c *contestant) footprint(ctx context.Context) (f footprint, err error) {
	sql := footprintSQL + checkpointsSQL
	if c.conn.PgConn().ParameterStatus("server_version") >= "17" {
		sql = footprintSQL + newerCheckpointsSQL
	}
	if err = c.conn.QueryRow(ctx, sql).Scan(&f.total, &f.events, &f.indexes, &f.posts, &f.ledger, &f.wal, &f.fullPages,
		&f.timed, &f.asked); err != nil {
		return f, fmt.Errorf("measure the database: %w", err)
	}
	return f, nil
}

// since describes the growth since an earlier footprint, divided by n comments.
func (f footprint) since(earlier footprint, n int) string {
	rest := func(f footprint) float64 { return f.total - f.events - f.indexes - f.posts - f.ledger }
	per := func(now, then float64) float64 { return (now - then) / float64(n) }
	return fmt.Sprintf("%8.0f%8.0f%8.0f%7.0f%7.0f%7.0f%8.0f%12.3f%13s", per(f.total, earlier.total),
		per(f.events, earlier.events), per(f.indexes, earlier.indexes), per(f.posts, earlier.posts),
		per(f.ledger, earlier.ledger), per(rest(f), rest(earlier)), per(f.wal, earlier.wal),
		per(f.fullPages, earlier.fullPages),
		fmt.Sprintf("%d, %d", f.timed-earlier.timed, f.asked-earlier.asked))
}

// largestSQL returns the largest discussion and a comment in the middle of it.
const largestSQL = `WITH largest AS (
    SELECT novel_id, thread_id, count(*) FROM posts GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 1
)
SELECT t.slug, l.count, (SELECT p.post_id FROM posts p WHERE p.thread_id = l.thread_id ORDER BY p.written_at, p.post_id
                         OFFSET l.count / 2 LIMIT 1)::text
FROM largest l JOIN title_lookup t USING (novel_id)`

// read prints how long the projections take to catch up, and measures readers of the largest discussion.
func (c *growthCommand) read(ctx context.Context, s *contestant, started time.Time) error {
	const connections = 8
	if _, err := s.awaitProjections(ctx); err != nil {
		return err
	}
	fmt.Printf("\nStarted again, with %d more comments in one discussion: caught up with them after %v.\n", c.Discussion,
		time.Since(started).Round(time.Millisecond))
	var slug, post string
	var comments int
	if err := s.conn.QueryRow(ctx, largestSQL).Scan(&slug, &comments, &post); err != nil {
		return fmt.Errorf("find the largest discussion: %w", err)
	}
	path := "/novels/" + slug + "/discussion"
	readers := []*contestant{s.reader("page", path), s.reader("link to a comment", path+"?post="+post)}
	rounds, err := alternate(ctx, readers, connections, 1, c.Duration)
	if err != nil {
		return err
	}
	fmt.Printf("\nA discussion of %d comments, %d readers at a time\n", comments, connections)
	for i, reader := range readers {
		fmt.Print(rounds[i][0].line(reader.name))
	}
	return nil
}
