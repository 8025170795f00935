package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"novelgate/events/eventlog"
)

// closeTimeout is how long Run waits for running transactions when ctx ends.
const closeTimeout = 30 * time.Second

// Config configures a Runner.
type Config struct {
	// Pool runs the transactions that apply events: one connection per projection at a time. One connection outside the
	// pool, with its configuration, reads the log. Required.
	Pool *pgxpool.Pool
	// Projections follow the log, each at its own pace. Their names are unique. Default: All().
	Projections []Projection
	// Wake signals the appends of this process. Run also listens for those of other processes. Default: a new one, which
	// nothing in this process signals.
	Wake *eventlog.Wake
	// Tail reads the log; the ledger may share it. Default: a new one.
	Tail *eventlog.Tail
	// Limit is the maximum number of events in one transaction, if Tail is not set. Default: eventlog.DefaultLimit.
	Limit int
	// Patience is the number of ambiguous errors, whose cause is the event or the database, after which the event is
	// blamed. A success resets their count. Default: 200, which takes a quarter of an hour.
	Patience int
	// Tracer starts a span for each chunk of events, which links those of their requests. Default: none.
	Tracer trace.Tracer
	// Logger gets errors. Default: slog.Default.
	Logger *slog.Logger
}

// Runner keeps asynchronous projections up to date: a Watermill Router with one subscription per projection.
//
// Each event is applied exactly once, in log order: the transaction that applies a batch locks the checkpoint, requires
// it at the start of the batch, and moves it to the end. If a batch comes again after it was committed, by a redelivery
// or in another replica, the checkpoint is no longer at its start, and the batch is dropped.
//
// One projection for every two processors applies a large chunk at a time, so that the commands keep processors. A
// projection that waits, such as for a lock, does not stop the others: none waits for the others longer than 250 ms.
//
// Replicas may run the same projections. One applies, the others stand by; see eventlog.Follow.
//
// An event that cannot be applied stops its projection in all replicas until Retry, Skip or a rebuild. Errors
// that may have another cause are retried, with growing waits, before the event is blamed. At an event of an unknown
// type a replica waits for a replica of a newer version.
//
// Events that the log has lost since they were read are not applied (see eventlog.HasMarkSQL).
type Runner struct {
	config  Config
	running chan struct{}
	started atomic.Bool
}

// NewRunner returns a runner; start it with Run.
func NewRunner(config Config) (*Runner, error) {
	if config.Pool == nil {
		return nil, errors.New("create runner: Pool is nil")
	}
	if config.Projections == nil {
		config.Projections = All()
	}
	names := map[string]bool{}
	for _, projection := range config.Projections {
		if names[projection.Name()] {
			return nil, fmt.Errorf("create runner: two projections are named %s", projection.Name())
		}
		names[projection.Name()] = true
	}
	if config.Patience <= 0 {
		config.Patience = defaultPatience
	}
	if config.Wake == nil {
		config.Wake = eventlog.NewWake()
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Runner{config: config, running: make(chan struct{})}, nil
}

// Running is closed when every projection has read its checkpoint, also if it then does not follow the log: because it
// has failed, or because its tables are of another generation.
func (r *Runner) Running() <-chan struct{} { return r.running }

// Run keeps the projections up to date until ctx ends. Then it completes running transactions and returns nil. While
// the database is unreachable it waits. Call it once.
func (r *Runner) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return errors.New("run projections: this runner was started before")
	}
	if len(r.config.Projections) == 0 {
		close(r.running)
		<-ctx.Done()
		return nil
	}
	connConfig := r.config.Pool.Config().ConnConfig
	tail := r.config.Tail
	if tail == nil {
		tail = eventlog.NewTail(connConfig, r.config.Limit)
	}
	defer tail.Close(context.WithoutCancel(ctx)) // a shared one connects again
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: closeTimeout},
		eventlog.WatermillLogger(r.config.Logger))
	if err != nil {
		return fmt.Errorf("create router: %w", err)
	}
	var pending atomic.Int64 // projections that have not read their checkpoint yet
	pending.Store(int64(len(r.config.Projections)))
	slots := semaphore.NewWeighted(int64(max(1, runtime.NumCPU()/2)))
	for _, projection := range r.config.Projections {
		f := &follower{
			projection: projection, pool: r.config.Pool, slots: slots, tail: tail,
			patience: r.config.Patience, tracer: r.config.Tracer,
			logger: r.config.Logger.With(slog.String("projection", projection.Name())),
			wake:   r.config.Wake,
			begun: sync.OnceFunc(func() {
				if pending.Add(-1) == 0 {
					close(r.running)
				}
			}),
		}
		subscriber := eventlog.NewSubscriber(f.run)
		router.AddConsumerHandler(projection.Name(), eventlog.Topic, subscriber, subscriber.Handler(f.handle)) //nolint:contextcheck // the handler gets the context of the message
	}

	var listener sync.WaitGroup
	defer listener.Wait()
	listening, stopListening := context.WithCancel(ctx)
	defer stopListening()
	listener.Go(func() { r.config.Wake.Listen(listening, connConfig, r.config.Logger) })
	return r.route(ctx, router)
}

// route runs the router until ctx ends. The context of the router does not end, because it would cancel running
// transactions.
func (r *Runner) route(ctx context.Context, router *message.Router) error {
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(ctx)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("run router: %w", err)
	case <-router.Running(): // Close works only after the router runs
	}
	select {
	case err := <-ended:
		return fmt.Errorf("router ended: %w", err)
	case <-ctx.Done():
	}
	if err := router.Close(); err != nil {
		return fmt.Errorf("close router: %w", err)
	}
	return <-ended
}
