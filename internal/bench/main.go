// Command bench measures how fast novelgate takes comments in, against a CRUD peer on the same PostgreSQL server, and
// how fast it is read; and loads a catalogue of real novels into a running service.
//
//	go run ./internal/bench                                  # compare at 1, 64 and 256 connections
//	go run ./internal/bench --pairs 3 --connections 256 --paused
//	go run ./internal/bench --preload 1000000                # with a million comments in the log
//	go run ./internal/bench pools                            # find the best pool for the peer
//	go run ./internal/bench profile --output cpu.pprof       # where the service's time goes
//	go run ./internal/bench read                             # pages and JSON of a large discussion
//	go run ./internal/bench projections                      # how fast projections read the log
//	go run ./internal/bench ledger                           # what sealing costs
//	go run ./internal/bench visible                          # from a comment's commit to analysts
//	go run ./internal/bench rebuild                          # ingest while a projection is rebuilt
//	go run ./internal/bench catalogue --csv books.csv --url http://127.0.0.1:8080 --key ngp_…
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"novelgate/internal/bench/contest"
)

// CLI is every command and flag of the program.
type CLI struct {
	Compare     CompareCommand     `cmd:"" default:"withargs" help:"Measure the service against the CRUD peer, pair by pair."`
	Pools       PoolsCommand       `cmd:"" help:"Measure the CRUD peer with pools of several sizes."`
	Profile     ProfileCommand     `cmd:"" help:"Put the service under load, save a CPU profile of it and list its SQL statements by cost."`
	Projections ProjectionsCommand `cmd:"" help:"Measure a rebuild and the catch-up of a projection against a plain loop that reads the log."`
	Ledger      LedgerCommand      `cmd:"" help:"Measure the service against one that does not seal, and how long events wait for their seal."`
	Visible     VisibleCommand     `cmd:"" help:"Measure how long after it was sent a lone comment is answered, and is seen by analysts."`
	Rebuild     RebuildCommand     `cmd:"" help:"Measure how many comments are accepted while a projection is rebuilt, against how many are without that."`
	Read        ReadCommand        `cmd:"" help:"Measure pages and JSON of a large discussion against printing the rows of the same statement."`
	ReadPeer    ReadPeerCommand    `cmd:"" hidden:"" help:"Be the handler that readers are compared with."`
	Catalogue   CatalogueCommand   `cmd:"" help:"Load a CSV file of novels into a running service, and comments on them; then the same once more."`
	Peer        PeerCommand        `cmd:"" hidden:"" help:"Be the CRUD peer."`
	Load        LoadCommand        `cmd:"" hidden:"" help:"Be the load generator."`
}

// invocation is what a command finds when it runs.
type invocation struct {
	ctx    context.Context //nolint:containedctx // kong passes one value to Run methods
	stdin  io.Reader
	stdout io.Writer
	now    func() time.Time
}

func (in *invocation) print(text string) error {
	if _, err := io.WriteString(in.stdout, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// ArenaFlags say where and on what is measured.
type ArenaFlags struct {
	DataDir string  `name:"data-dir" type:"existingdir" placeholder:"DIR" help:"Directory, on a disk, for the data of the database server; what is made there is deleted afterwards (default: the one for temporary files)."`
	Binary  string  `type:"existingfile" placeholder:"FILE" help:"The novelgate to measure (default: built from this module)."`
	Titles  int     `default:"1000" help:"How many novels the comments are about."`
	Replies float64 `default:"0.3" help:"Share of comments that answer an earlier one."`
}

func (f ArenaFlags) open(in *invocation, settings map[string]string) (*contest.Arena, error) {
	arena, err := contest.Open(in.ctx, contest.Config{
		DataDir: f.DataDir, Binary: f.Binary, Titles: f.Titles, Replies: f.Replies, Settings: settings, Now: in.now,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the benchmark: %w", err)
	}
	return arena, nil
}

var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	if err != nil && ctx.Err() != nil {
		err = errInterrupted // the rest is what stopping brings with it
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var cli CLI
	parser, err := kong.New(&cli, kong.Name("bench"), kong.Description("Benchmarks of novelgate."), kong.UsageOnError())
	if err != nil {
		return fmt.Errorf("describe the command line: %w", err)
	}
	command, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	now := time.Now
	return command.Run(&invocation{ctx: ctx, stdin: os.Stdin, stdout: os.Stdout, now: now})
}
