package refusals

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/events/eventlog"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// What the table keeps of each integration: Most refusals, none older than Age.
const (
	Most = 1_000
	Age  = 30 * 24 * time.Hour
)

const (
	interval = time.Second     // between groups
	timeout  = 5 * time.Second // of a group
	prune    = time.Hour       // between prunings by age of a service without refusals
	// A process holds back at most maxWaiting refusals, and maxShare of one integration, so that one that sends nothing
	// but wrong commands leaves room for others, and costs the database at most maxShare rows a second.
	maxWaiting = 2_000
	maxShare   = 500
	// limitedPause is the time after a rate_limited in which others of its integration and operation are only counted:
	// clients repeat them for as long as the limit is reached.
	limitedPause = time.Minute
)

// Metrics count refusals.
type Metrics struct {
	refusals *prometheus.CounterVec
	dropped  prometheus.Counter
}

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	return &Metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "novelgate_refusals_total",
			Help: "Refused commands of integrations with a valid API key, by integration (its id) and code of the problem. " +
				"Failures of the service do not count.",
		}, []string{"integration", "code"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_refusals_dropped_total",
			Help: "Refused commands that were not recorded, because there were too many, or the database is away.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.refusals.Collect(ch)
	m.dropped.Collect(ch)
}

// Recorder stores the refusals of a process.
type Recorder struct {
	Pool    *pgxpool.Pool
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics *Metrics

	mu      sync.Mutex
	waiting []waiting
	shares  map[uuid.UUID]int // of waiting
	limited map[limited]time.Time

	pruned time.Time // when flush did it last
}

// waiting is a refusal that is not stored yet.
type waiting struct {
	Refusal
	integration uuid.UUID
}

// limited is what the last rate_limited on record was about.
type limited struct {
	integration uuid.UUID
	operation   string
}

// Add counts a refusal and puts it into the queue, or drops it. It does not wait for the database.
func (r *Recorder) Add(refused web.Refusal) {
	r.Metrics.refusals.WithLabelValues(refused.Integration.String(), string(refused.Problem.Code)).Inc()
	at := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused.Problem.Code == problem.CodeRateLimited {
		about := limited{refused.Integration, refused.Operation}
		if last, known := r.limited[about]; known && at.Sub(last) < limitedPause {
			return
		}
		if r.limited == nil {
			r.limited = map[limited]time.Time{}
		}
		r.limited[about] = at
	}
	if len(r.waiting) >= maxWaiting || r.shares[refused.Integration] >= maxShare {
		r.Metrics.dropped.Inc()
		return
	}
	if r.shares == nil {
		r.shares = map[uuid.UUID]int{}
	}
	r.shares[refused.Integration]++
	r.waiting = append(r.waiting, waiting{newRefusal(at, refused), refused.Integration})
}

// Run stores refusals until ctx ends, and then those that wait.
func (r *Recorder) Run(ctx context.Context) {
	isAway := false
	for more := true; more; {
		more = eventlog.Sleep(ctx, interval)
		storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		err := r.flush(storing)
		cancel()
		if err != nil && !isAway {
			r.Logger.WarnContext(ctx, "refusals are not recorded at present", slog.Any("error", err))
		}
		isAway = err != nil
	}
}

// flush stores the queue and prunes the table, if there is something to do. On an error the queue stays as it is.
func (r *Recorder) flush(ctx context.Context) error {
	r.mu.Lock()
	group := r.waiting // Add does not change its elements
	r.mu.Unlock()
	if len(group) == 0 && r.Now().Sub(r.pruned) < prune {
		return nil
	}
	if err := r.store(ctx, group); err != nil {
		return err
	}
	r.pruned = r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.Clone(r.waiting[len(group):])
	r.shares = map[uuid.UUID]int{}
	for _, w := range r.waiting {
		r.shares[w.integration]++
	}
	return nil
}

var (
	//go:embed insert.sql
	insertSQL string
	//go:embed prune_count.sql
	pruneCountSQL string
)

const pruneAgeSQL = `DELETE FROM refusals WHERE refused_at < $1`

// store stores a group and prunes its integrations, in one transaction. A crash of the server may lose it, and it does
// not wait for a standby.
func (r *Recorder) store(ctx context.Context, group []waiting) error {
	n := len(group)
	of, ids, times := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]time.Time, n)
	requests, operations, codes, details := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	keys, fields := make([]*string, n), make([]*string, n)
	integrations := map[uuid.UUID]bool{}
	for i := range group {
		g := &group[i]
		of[i], ids[i], times[i], requests[i], operations[i] = g.integration, g.ID, g.RefusedAt, g.RequestID, g.Operation
		keys[i], codes[i], fields[i], details[i] = g.IdempotencyKey, string(g.Code), g.Field, g.Detail
		integrations[g.integration] = true
	}
	// All replicas delete in the same order, so that they do not wait for each other in a circle.
	sorted := slices.SortedFunc(maps.Keys(integrations), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	err := pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		var batch pgx.Batch
		batch.Queue(`SET LOCAL synchronous_commit = off`)
		if n > 0 {
			batch.Queue(insertSQL, of, ids, times, requests, operations, keys, codes, fields, details)
			batch.Queue(pruneCountSQL, sorted, Most)
		}
		batch.Queue(pruneAgeSQL, r.Now().Add(-Age))
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return fmt.Errorf("store refusals: %w", err)
	}
	return nil
}
