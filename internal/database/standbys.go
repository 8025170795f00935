package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Reasons not to use a standby.
var (
	ErrPromoted     = errors.New("the server is no standby: it was promoted, or never was one")
	ErrOtherHistory = errors.New("the server follows another primary, or has not followed the present one yet")
	ErrBehind       = errors.New("the standby is too far behind the primary, or the primary does not answer")

	// ErrNoStandby means that readers may use none of the standbys.
	ErrNoStandby = errors.New("no standby is up to date")

	errUnknown = errors.New("not checked yet")
)

// Standbys sends the statements of readers to hot standbys of the primary. It uses a standby only while its
// measured lag is at most maxLag. It is a Querier: a statement whose context comes from Choose goes to the chosen
// standby, any other one to the primary.
//
// Watch samples the primary's LSN. The lag of a standby is the age of the newest sample that it has
// replayed. A lag by pg_last_xact_replay_timestamp would grow without bound while no client writes.
type Standbys struct {
	primary *pgxpool.Pool // for statements of readers
	watched *pgxpool.Pool // the primary, for Watch: readers may use up their own connections
	all     []*standby
	maxLag  time.Duration
	now     func() time.Time
	logger  *slog.Logger

	next atomic.Uint32 // to choose in turns

	// Of the primary; only check uses them.
	wal     walHistory
	samples []sample // oldest first
}

// walHistory is a cluster and its timeline. Each promotion of a standby begins a new timeline; LSNs of two timelines
// are not comparable.
type walHistory struct{ cluster, timeline string }

// standby is one of the servers.
type standby struct {
	host    string        // with port
	pool    *pgxpool.Pool // for statements of readers
	history *pgxpool.Pool // for pages of the event history
	watched *pgxpool.Pool // for Watch
	answers prometheus.Counter
	repeats prometheus.Counter

	mu      sync.Mutex
	asOf    time.Time // everything committed by then was replayed
	refused error     // result of the last check: the reason not to use it, or nil; lag adds ErrBehind
}

// sample is an LSN after everything that was committed before the time at.
type sample struct {
	at  time.Time
	lsn string
}

// standbyConnections is the number of connections to each standby for readers. Each standby has historyConnections and
// one connection for Watch besides.
const standbyConnections = 14

// OpenStandbys returns the Standbys of a URL, which names one host or several, as in libpq. The hosts need not
// answer yet.
func OpenStandbys(
	ctx context.Context, url string, pools *Pools, maxLag time.Duration, now func() time.Time,
	logger *slog.Logger,
) (*Standbys, error) {
	s := &Standbys{primary: pools.Read, watched: pools.General, maxLag: maxLag, now: now, logger: logger}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse URL of the standbys: %w", err)
	}
	for _, host := range hostsOf(&config.Config) {
		address := addressOf(host)
		if slices.ContainsFunc(s.all, func(known *standby) bool { return known.host == address }) {
			continue // the same host without TLS
		}
		one := newStandby(address)
		s.all = append(s.all, one)
		if err := one.open(ctx, url); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// replayedPause is the interval at which OpenReplayed checks the standbys.
const replayedPause = 50 * time.Millisecond

// OpenReplayed returns a pool as OpenGeneral does, on a standby that has replayed all that was committed before the
// call. It tries for maxLag, and fails with ErrNoStandby when there is none.
func OpenReplayed(
	ctx context.Context, url string, primary *pgxpool.Pool, maxLag time.Duration, now func() time.Time,
) (*pgxpool.Pool, error) {
	s, err := OpenStandbys(ctx, url, &Pools{Read: primary, General: primary}, maxLag, now,
		slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for began := now(); ; {
		s.check(ctx, pingTimeout) // all samples are taken after the call, so a standby that replayed one suffices
		if one := s.choose(); one != nil {
			return open(ctx, url, options{size: 2, settings: commandSettings, ping: true, only: one.host})
		}
		if now().Sub(began) >= maxLag {
			return nil, s.reasons()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(replayedPause):
		}
	}
}

// reasons returns an ErrNoStandby with the reason of each standby.
func (s *Standbys) reasons() error {
	err := ErrNoStandby
	for _, one := range s.all {
		_, reason := one.lag(s.now(), s.maxLag)
		err = fmt.Errorf("%w; %s: %w", err, one.host, reason)
	}
	return err
}

func newStandby(host string) *standby {
	labels := prometheus.Labels{"host": host}
	return &standby{
		host: host, refused: errUnknown,
		answers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_standby_answers_total", ConstLabels: labels,
			Help: "Answers to readers, and pages of the history, that were read from the standby.",
		}),
		repeats: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_standby_repeats_total", ConstLabels: labels,
			Help: "Reads that were repeated on the primary: the standby failed or lacked what they ask for, or the request " +
				"is not valid.",
		}),
	}
}

// open opens the pools. After an error, close what was opened.
func (s *standby) open(ctx context.Context, url string) (err error) {
	for _, pool := range []struct {
		target **pgxpool.Pool
		options
	}{
		{&s.pool, options{size: standbyConnections, settings: readSettings, ping: true}},
		{&s.history, options{size: historyConnections, settings: historySettings, ping: true}},
		{&s.watched, options{size: 1, settings: readSettings}},
	} {
		pool.only = s.host
		if *pool.target, err = open(ctx, url, pool.options); err != nil {
			return err
		}
	}
	return nil
}

// pools returns the pools that are open.
func (s *standby) pools() []*pgxpool.Pool {
	return slices.DeleteFunc([]*pgxpool.Pool{s.pool, s.history, s.watched},
		func(pool *pgxpool.Pool) bool { return pool == nil })
}

// hostsOf returns the hosts of a configuration in their order, a host with and without TLS as two.
func hostsOf(config *pgconn.Config) []*pgconn.FallbackConfig {
	first := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	return slices.Concat([]*pgconn.FallbackConfig{first}, config.Fallbacks)
}

func addressOf(host *pgconn.FallbackConfig) string {
	return net.JoinHostPort(host.Host, strconv.Itoa(int(host.Port)))
}

// keepHost leaves only the hosts with this address in a configuration.
func keepHost(config *pgconn.Config, address string) {
	all := slices.DeleteFunc(hostsOf(config), func(host *pgconn.FallbackConfig) bool { return addressOf(host) != address })
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
}

// Close closes the connections to the standbys. Like Choose it may be called on nil, which means no standbys.
func (s *Standbys) Close() {
	if s == nil {
		return
	}
	for _, one := range s.all {
		for _, pool := range one.pools() {
			pool.Close()
		}
	}
}

type chosenKey struct{}

// Choose returns a context whose statements go to a standby, and a function that counts, for the metrics, whether the
// caller used the answer of the standby. It returns false when no standby may be used.
func (s *Standbys) Choose(ctx context.Context) (chosen context.Context, count func(used bool), ok bool) {
	one := s.choose()
	if one == nil {
		return ctx, nil, false
	}
	return context.WithValue(ctx, chosenKey{}, one), one.count, true
}

// History returns a pool for pages of the history, with the settings of Pools.History, and a function as Choose does.
// It returns false when no standby may be used.
func (s *Standbys) History() (pool *pgxpool.Pool, count func(used bool), ok bool) {
	one := s.choose()
	if one == nil {
		return nil, nil, false
	}
	return one.history, one.count, true
}

// choose returns a standby that may be used; nil without one.
func (s *Standbys) choose() *standby {
	if s == nil {
		return nil
	}
	turn := int(s.next.Add(1))
	for i := range s.all {
		one := s.all[(turn+i)%len(s.all)]
		if _, err := one.lag(s.now(), s.maxLag); err == nil {
			return one
		}
	}
	return nil
}

func (s *standby) count(used bool) {
	if used {
		s.answers.Inc()
	} else {
		s.repeats.Inc()
	}
}

// Query implements Querier.
func (s *Standbys) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return s.pool(ctx).Query(ctx, sql, args...)
}

// QueryRow implements Querier.
func (s *Standbys) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.pool(ctx).QueryRow(ctx, sql, args...)
}

func (s *Standbys) pool(ctx context.Context) *pgxpool.Pool {
	if one, ok := ctx.Value(chosenKey{}).(*standby); ok {
		return one.pool
	}
	return s.primary
}

// lag returns how old answers of the standby may be, and the reason not to use it; nil if readers may use it.
func (s *standby) lag(now time.Time, most time.Duration) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lag := now.Sub(s.asOf)
	if s.refused == nil && lag > most {
		return lag, ErrBehind
	}
	return lag, s.refused
}

// standbyInterval is the longest time between two checks of the standbys; a quarter of maxLag if that is less.
const standbyInterval = time.Second

// Watch checks the primary and the standbys at intervals until ctx ends.
func (s *Standbys) Watch(ctx context.Context) {
	interval := min(standbyInterval, s.maxLag/4)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		s.check(ctx, max(interval, pingTimeout))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

const lsnSQL = `SELECT pg_current_wal_lsn()::text, (SELECT system_identifier::text FROM pg_control_system()), ` + TimelineSQL

// check takes a sample of the primary and measures the lag of each standby. Each server has timeout to answer.
func (s *Standbys) check(ctx context.Context, timeout time.Duration) {
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	taken, wal := sample{at: s.now()}, walHistory{}
	err := s.watched.QueryRow(asking, lsnSQL).Scan(&taken.lsn, &wal.cluster, &wal.timeline)
	if err == nil { // otherwise the samples stay true, and grow old
		if wal != s.wal { // another server was promoted: its WAL continues from an earlier LSN
			s.wal, s.samples = wal, nil
		}
		s.samples = append(s.samples, taken)
	}
	s.samples = slices.DeleteFunc(s.samples, func(old sample) bool { return taken.at.Sub(old.at) > s.maxLag })
	var checks sync.WaitGroup
	for _, one := range s.all {
		checks.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			s.judge(ctx, one)
		})
	}
	checks.Wait()
}

// standbySQL returns whether the server is a standby, its cluster, the newest timeline that its control file records as
// replayed, and how many of the samples in $1, oldest first, it has replayed.
const standbySQL = `SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_control_system()),
       (SELECT lpad(upper(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline))), 8, '0')
        FROM pg_control_checkpoint() AS c, pg_control_recovery() AS r),
       (SELECT count(*) FROM unnest($1::text[]) AS s (lsn) WHERE s.lsn::pg_lsn <= pg_last_wal_replay_lsn())`

// judge decides whether a standby may be used. It logs a change of that, or of the reason.
func (s *Standbys) judge(ctx context.Context, one *standby) {
	asOf, err := s.replayed(ctx, one)
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the check was interrupted, and shows nothing
	}
	now := s.now()
	_, before := one.lag(now, s.maxLag)
	one.mu.Lock()
	one.refused = err
	if err == nil {
		one.asOf = asOf
	}
	one.mu.Unlock()
	lag, after := one.lag(now, s.maxLag)
	switch {
	case errors.Is(after, reason(before)): // unchanged, also if both are nil
	case after == nil:
		s.logger.InfoContext(ctx, "readers use a standby", slog.String("host", one.host), slog.Duration("lag", lag))
	default:
		s.logger.WarnContext(ctx, "readers do not use a standby", slog.String("host", one.host), slog.Any("reason", after))
	}
}

// reason returns the reason of err without details.
func reason(err error) error {
	for _, known := range []error{ErrNoAnswer, ErrPromoted, ErrOtherHistory, ErrBehind} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

// replayed returns the time of the newest sample that the standby has replayed: it has everything committed by then.
func (s *Standbys) replayed(ctx context.Context, one *standby) (time.Time, error) {
	lsns := make([]string, len(s.samples))
	for i, known := range s.samples {
		lsns[i] = known.lsn
	}
	var recovering bool
	var wal walHistory
	var replayed int
	err := one.watched.QueryRow(ctx, standbySQL, lsns).Scan(&recovering, &wal.cluster, &wal.timeline, &replayed)
	switch {
	case err != nil:
		for _, pool := range one.pools() { // a server that restarts leaves dead connections
			pool.Reset()
		}
		return time.Time{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	case !recovering:
		return time.Time{}, ErrPromoted
	case len(s.samples) > 0 && wal != s.wal:
		return time.Time{}, ErrOtherHistory
	case replayed == 0:
		return time.Time{}, ErrBehind
	}
	return s.samples[replayed-1].at, nil
}

var (
	standbyUsedDesc = prometheus.NewDesc("novelgate_standby_used", "Whether readers are answered from the standby.",
		[]string{"host"}, nil)
	standbyLagDesc = prometheus.NewDesc("novelgate_standby_lag_seconds",
		"How old answers from the standby may be. It grows while the standby or the primary does not answer.",
		[]string{"host"}, nil)
)

// maxKnownLag is more than any measured lag. A standby that never answered exceeds it: its asOf is zero.
const maxKnownLag = 100 * 365 * 24 * time.Hour

// Describe implements prometheus.Collector.
func (s *Standbys) Describe(descs chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, descs) }

// Collect implements prometheus.Collector.
func (s *Standbys) Collect(metrics chan<- prometheus.Metric) {
	now := s.now()
	for _, one := range s.all {
		lag, err := one.lag(now, s.maxLag)
		metrics <- prometheus.MustNewConstMetric(standbyUsedDesc, prometheus.GaugeValue, BoolValue(err == nil), one.host)
		if lag < maxKnownLag {
			metrics <- prometheus.MustNewConstMetric(standbyLagDesc, prometheus.GaugeValue, lag.Seconds(), one.host)
		}
		one.answers.Collect(metrics)
		one.repeats.Collect(metrics)
	}
}
