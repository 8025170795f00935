package database

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// FullServer returns the refusal of a server, a database or a role without a free connection, if err is one.
func FullServer(err error) (refused *pgconn.PgError, ok bool) {
	const tooManyConnections = "53300"
	ok = errors.As(err, &refused) && refused.Code == tooManyConnections
	return refused, ok
}

// FullAdvice says what to do about a server without a free connection.
var FullAdvice = fmt.Sprintf("each replica of the service uses up to %d: raise max_connections, or the connection "+
	"limit of the role or the database; `novelgate doctor` counts connections, as a superuser also on a full server", Connections)

// Results of a probe, besides ErrOldPrimary, ErrStandby and ErrReadOnly. ErrNoAnswer stands for any other error.
var (
	ErrNoAnswer = errors.New("the database does not answer")
	ErrFull     = errors.New("the database server has no connection left")
)

// probeTimeout limits one round of probes.
const probeTimeout = time.Second

const writableSQL = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'`

// Probe tests whether each pool for commands (append, access) provides a writable connection. It returns for
// each of these pools ErrNoAnswer, ErrFull, ErrOldPrimary, ErrStandby, ErrReadOnly or nil. It takes at most a second.
func (p *Pools) Probe() map[string]error {
	found, _, _ := p.probes.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		var probing sync.WaitGroup
		var mu sync.Mutex
		found := map[string]error{}
		for name, pool := range p.forCommands() {
			probing.Go(func() {
				err := probe(ctx, pool)
				mu.Lock()
				defer mu.Unlock()
				found[name] = err
			})
		}
		probing.Wait()
		return found, nil
	})
	return found.(map[string]error)
}

func probe(ctx context.Context, pool *pgxpool.Pool) error {
	var standby, readOnly bool
	err := Retry(ctx, pool, func() error { return pool.QueryRow(ctx, writableSQL).Scan(&standby, &readOnly) })
	_, full := FullServer(err)
	switch {
	case full:
		return ErrFull
	case errors.Is(err, ErrOldPrimary):
		return ErrOldPrimary
	case err != nil:
		return ErrNoAnswer
	case standby:
		err = ErrStandby
	case readOnly:
		err = ErrReadOnly
	default:
		return nil
	}
	// Some changes by the operator (ALTER ROLE, ALTER DATABASE) and a failover to another server only affect new
	// sessions.
	pool.Reset()
	return err
}

// NewReadyCollector returns a collector that exports the results of a probe such as Pools.Probe to Prometheus. It
// probes at every scrape.
func NewReadyCollector(probe func() map[string]error) prometheus.Collector {
	ready := prometheus.NewDesc("novelgate_ready",
		"1 if the pool provides a writable connection; for the pool commands: if commands succeed.", []string{"pool"}, nil)
	return prometheus.CollectorFunc(func(metrics chan<- prometheus.Metric) {
		for name, err := range probe() {
			metrics <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, BoolValue(err == nil), name)
		}
	})
}
