package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// growthCommand is `bench growth`.
type growthCommand struct {
	testbedFlags
	Events      int               `default:"1000000" help:"Comments to deliver through the service."`
	Step        int               `default:"500000" help:"Comments in a step. Each step prints a line."`
	Connections int               `default:"256" help:"Keep-alive connections."`
	Settings    map[string]string `name:"setting" sep:"none" mapsep:"none" placeholder:"NAME=VALUE" help:"Settings of the database server, such as --setting=wal_compression=lz4 (default: those of the embedded server)."`
}

// footprintSQL measures the database in bytes, and the WAL since the server's start.
const footprintSQL = `SELECT pg_database_size(current_database()), pg_table_size('events'), pg_indexes_size('events'),
       pg_total_relation_size('posts'),
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname LIKE 'ledger\_%'),
       w.wal_bytes::float8, w.wal_fpi FROM pg_stat_wal w`

// Run prints the cost of comments while the database grows, and then verifies the log.
func (c *growthCommand) Run(ctx context.Context) error {
	return c.withService(ctx, c.Settings, func(s *contestant) error {
		footprint := func() (f [7]float64, err error) {
			if err = s.conn.QueryRow(ctx, footprintSQL).Scan(&f[0], &f[1], &f[2], &f[3], &f[4], &f[5], &f[6]); err != nil {
				err = fmt.Errorf("measure the database: %w", err)
			}
			return f, err
		}
		const header = "\n%26s%16s%38s%20s\n%10s%8s%8s%9s%7s%8s%8s%8s%7s%7s%8s%12s\n"
		fmt.Printf(header, "", "CPU/comment, µs", "disk bytes/comment", "WAL/comment", "comments", "per s", "p99 ms",
			"service", "db", "total", "events", "indexes", "posts", "ledger", "bytes", "full pages")
		before, err := footprint()
		if err != nil {
			return err
		}
		slowest := time.Duration(0)
		for done := 0; done < c.Events; {
			const noLimit = 7 * 24 * time.Hour
			n := min(c.Step, c.Events-done)
			f, err := s.round(ctx, c.Connections, noLimit, n)
			if err != nil {
				return err
			}
			after, err := footprint()
			if err != nil {
				return err
			}
			done += n
			slowest = max(slowest, f.catchUp)
			per := func(i int) float64 { return (after[i] - before[i]) / float64(n) }
			fmt.Printf("%10d%8.0f%8.1f%9.1f%7.1f%8.0f%8.0f%8.0f%7.0f%7.0f%8.0f%12.3f\n%s", done, f.perSecond, millis(f.p99),
				micros(f.service), micros(f.database), per(0), per(1), per(2), per(3), per(4), per(5), per(6),
				failures(s.name, f))
			before = after
		}
		fmt.Printf("Projections were at most %v behind the end of a step. The database has %.2f GB.\n",
			slowest.Round(time.Millisecond), before[0]/1e9)
		if err := s.checkStored(ctx); err != nil {
			return err
		}
		fmt.Println("\nnovelgate events verify")
		verify := command(ctx, s.Binary, "events", "verify", "--database-url", s.databaseURL)
		verify.Stdout = os.Stdout
		return verify.Run()
	})
}
