// Command bench measures how fast novelgate takes comments in, against a CRUD peer on the same PostgreSQL server or
// against another build of itself, and how fast it is read; and loads a catalogue of novels into a running service.
//
//	go run ./internal/bench                                  # compare at 1, 64 and 256 connections
//	go run ./internal/bench --pairs 3 --connections 256 --paused
//	go run ./internal/bench --preload 1000000                # with a million comments in the log
//	go run ./internal/bench --against ./bin/before           # two builds, each on a database of its own
//	go run ./internal/bench profile --output cpu.pprof       # where the service's time goes
//	go run ./internal/bench read                             # pages and JSON of a large discussion
//	go run ./internal/bench projections                      # how fast projections read the log
//	go run ./internal/bench visible                          # from a comment's commit to analysts
//	go run ./internal/bench rebuild                          # ingest while a projection is rebuilt
//	go run ./internal/bench growth --events 10000000         # what a comment costs while the database grows
//	go run ./internal/bench catalogue --csv books.csv --url http://127.0.0.1:8080 --key ngp_…
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"novelgate/internal/bench/contest"
	"novelgate/internal/bench/crud"
)

// CLI is every command and flag of the program.
type CLI struct {
	Compare     CompareCommand     `cmd:"" default:"withargs" help:"Measure the service against the CRUD peer or another build, pair by pair."`
	Profile     ProfileCommand     `cmd:"" help:"Put the service under load, save a CPU profile of it and list its SQL statements by cost."`
	Projections ProjectionsCommand `cmd:"" help:"Measure a rebuild and the catch-up of a projection against a plain loop that reads the log."`
	Visible     VisibleCommand     `cmd:"" help:"Measure how long after it was sent a lone comment is answered, and is seen by analysts."`
	Rebuild     RebuildCommand     `cmd:"" help:"Measure how many comments are accepted while a projection is rebuilt, against how many are without that."`
	Read        ReadCommand        `cmd:"" help:"Measure pages and JSON of a large discussion against printing the rows of the same statement."`
	Growth      GrowthCommand      `cmd:"" help:"Deliver many comments through the service, and measure what each costs while the database grows."`
	Catalogue   CatalogueCommand   `cmd:"" help:"Load a CSV file of novels into a running service, and comments on them; then the same once more."`
	ReadPeer    ReadPeerCommand    `cmd:"" hidden:"" help:"Be the handler that readers are compared with."`
	Peer        PeerCommand        `cmd:"" hidden:"" help:"Be the CRUD peer."`
	Load        LoadCommand        `cmd:"" hidden:"" help:"Be the load generator."`
}

// ArenaFlags say where and on what is measured.
type ArenaFlags struct {
	DataDir    string   `name:"data-dir" type:"existingdir" placeholder:"DIR" help:"Directory, on a disk, for the data of the database server; what is made there is deleted afterwards (default: the one for temporary files)."`
	Binary     string   `type:"existingfile" placeholder:"FILE" help:"The novelgate to measure (default: built from this module)."`
	Titles     int      `default:"1000" help:"How many novels the comments are about."`
	Replies    float64  `default:"0.3" help:"Share of comments that answer an earlier one."`
	ServeFlags []string `name:"serve-flag" sep:"none" placeholder:"FLAG" help:"Further flags of novelgate serve, such as --serve-flag=--lanes=4."`
}

func (f ArenaFlags) open(ctx context.Context, settings map[string]string) (*contest.Arena, error) {
	arena, err := contest.Open(ctx, contest.Config{
		DataDir: f.DataDir, Binary: f.Binary, Titles: f.Titles, Replies: f.Replies, Settings: settings,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the benchmark: %w", err)
	}
	return arena, nil
}

// withService is an arena in which one service runs.
type withService struct {
	*contest.Arena
	database contest.Database
	service  *contest.Contestant
}

// run lets use work with a service, and stops everything afterwards.
func (f ArenaFlags) run(
	ctx context.Context, paused bool, settings map[string]string, use func(a withService) error,
) (err error) {
	a := withService{}
	if a.Arena, err = f.open(ctx, settings); err != nil {
		return err
	}
	stopping := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, a.Close(stopping)) }()
	if a.database, err = a.NewService(ctx, "bench_service", ""); err != nil {
		return err
	}
	if a.service, err = a.StartService(ctx, a.database, "", paused, f.ServeFlags...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.service.Stop(stopping)) }()
	return use(a)
}

// preload stores n comments, and waits for the projections.
func (a withService) preload(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	begun := time.Now()
	if err := a.Preload(ctx, a.database, n); err != nil {
		return err
	}
	if _, err := a.service.Settle(ctx); err != nil {
		return err
	}
	fmt.Printf("%d comments stored and projected in %v\n", n, time.Since(begun).Round(time.Second))
	return a.Checkpoint(ctx)
}

// PeerCommand is the process of the CRUD peer.
type PeerCommand struct {
	DatabaseURL string    `name:"database-url" required:""`
	Key         string    `required:"" help:"API key."`
	Integration uuid.UUID `required:"" help:"Integration behind the key."`
	Pool        int32     `required:"" help:"Database connections."`
}

// Run serves until a signal comes.
func (c *PeerCommand) Run(ctx context.Context) error {
	return serve(ctx, func(url string) (http.Handler, func(), error) {
		return crud.Open(ctx, c.DatabaseURL, c.Pool, c.Key, c.Integration, url)
	})
}

// LoadCommand is the process of the load generator.
type LoadCommand struct {
	Config string `arg:""`
}

// Run connects, waits for the start, and prints the result.
func (c *LoadCommand) Run(ctx context.Context) error {
	return contest.RunLoad(ctx, c.Config, os.Stdin, os.Stdout)
}

// serve listens with the same time-outs as the service, since they cost time, and prints where.
func serve(ctx context.Context, open func(url string) (_ http.Handler, closing func(), _ error)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	url := "http://" + listener.Addr().String()
	handler, closing, err := open(url)
	if err != nil {
		return err
	}
	defer closing()
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute,
	}
	go func() {
		<-ctx.Done()
		_ = server.Close() // nobody waits for an answer
	}()
	fmt.Println(contest.PeerReady + url)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command := kong.Parse(&CLI{}, kong.Name("bench"), kong.Description("Benchmarks of novelgate."),
		kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)))
	err := command.Run()
	if err != nil && ctx.Err() != nil {
		err = errInterrupted // the rest is what stopping brings with it
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
