package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"novelgate/internal/bench/contest"
	"novelgate/internal/bench/load"
)

// LoadCommand is the process of the load generator.
type LoadCommand struct {
	Host        string        `required:""`
	Key         string        `required:"" help:"API key."`
	Connections int           `required:""`
	Duration    time.Duration `required:""`
	Titles      int           `required:""`
	Replies     float64       `required:""`
	Number      uint16        `name:"run" required:"" help:"Number that no other load on this database has."`
}

// Run connects, says that it is ready, begins when it gets a line, and prints the result.
func (c *LoadCommand) Run(in *invocation) error {
	// One processor is more than enough for it. Threads that wake each other would take time from those who are measured.
	runtime.GOMAXPROCS(1)
	l, err := load.Open(in.ctx, load.Config{
		Host: c.Host, APIKey: c.Key, Connections: c.Connections, Duration: c.Duration, Titles: c.Titles, Replies: c.Replies,
		Run: c.Number, Now: in.now,
	})
	if err != nil {
		return fmt.Errorf("open load: %w", err)
	}
	defer l.Close()
	if err := in.print(contest.LoadReady + "\n"); err != nil {
		return err
	}
	if _, err := bufio.NewReader(in.stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the start: %w", err)
	}
	result, err := l.Run()
	if err != nil {
		return fmt.Errorf("run load: %w", err)
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	return in.print(contest.LoadResult + string(encoded) + "\n")
}
