// Command bench measures how fast novelgate stores comments, compared with a CRUD peer on the same PostgreSQL server or
// with another build of itself, and how fast it answers readers.
//
//	go run ./internal/bench                                  # compare at 1, 64 and 256 connections
//	go run ./internal/bench --pairs 3 --connections 256 --paused
//	go run ./internal/bench --preload 1000000                # with a million comments in the log
//	go run ./internal/bench --against ./bin/before           # two builds, each on a database of its own
//	go run ./internal/bench profile --output cpu.pprof       # where the service's time goes
//	go run ./internal/bench read                             # pages and JSON of a large discussion
//	go run ./internal/bench projections                      # how fast projections read the log
//	go run ./internal/bench import --lines 1000000           # bulk import, alone and beside live comments
//	go run ./internal/bench growth --events 10000000         # what a comment costs while the database grows
//	go run ./internal/bench pages --titles 10000             # each kind of page, on a small and a large database
//
// Each contestant is a process with a database of its own, on one server. Rounds of several contestants alternate
// (A B, B A, A B, …), so that drift of the machine and of the tables affects all alike, and ratios are taken per round.
// The load comes from another process, whose processor time is counted separately. The processor time of the database
// is that of the server and all its children. A round ends when the asynchronous projections have caught up, so their
// cost is included.
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
)

type program struct {
	Compare     compareCommand     `cmd:"" default:"withargs" help:"Measure the service against the CRUD peer or another build, pair by pair."`
	Profile     profileCommand     `cmd:"" help:"Put the service under load, save a CPU profile of it and list its SQL statements by cost."`
	Projections projectionsCommand `cmd:"" help:"Measure a rebuild and the catch-up of a projection against a plain loop that reads the log."`
	Read        readCommand        `cmd:"" help:"Measure pages and JSON of a large discussion against printing the rows of the same statement."`
	Growth      growthCommand      `cmd:"" help:"Deliver many comments through the service, and measure what each costs while the database grows."`
	Import      importCommand      `cmd:"" help:"Measure bulk import against the live interface, and the live interface beside it."`
	Pages       pagesCommand       `cmd:"" help:"Measure each kind of page on a small and on a large database."`
	ReadPeer    readPeerCommand    `cmd:"" hidden:"" help:"Run the handler that readers are compared with."`
	Peer        peerCommand        `cmd:"" hidden:"" help:"Run the CRUD peer."`
	Load        loadCommand        `cmd:"" hidden:"" help:"Run the load generator."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command := kong.Parse(&program{}, kong.Name("bench"), kong.Description("Benchmarks of novelgate."),
		kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)))
	err := command.Run()
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted") // the other errors come from stopping
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// peerReady precedes the address in the output of a peer.
const peerReady = "The peer is listening on "

// serve runs a peer until ctx ends. It has the time-outs of the service, because time-outs cost processor time.
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
		_ = server.Close() // no request is open
	}()
	fmt.Println(peerReady + url)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
