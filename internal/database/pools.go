// Package database connects to PostgreSQL: connection pools with session settings for their work, and notifications. It
// checks servers before they are used, and finds out when they fail.
package database

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
	"golang.org/x/sync/singleflight"
)

// Pools are the connections of one process to its database. Their sizes are fixed: a pool that waits for one of its
// connections delays only its own kind of work.
type Pools struct {
	Append  *pgxpool.Pool // for the committer, which waits under the lock of the log for nothing else
	Access  *pgxpool.Pool // for authentication, and for ending a stopped holder of the lock
	Read    *pgxpool.Pool // for readers and partners' queries, so that they do not take connections from commands
	History *pgxpool.Pool // for auditors, whose reads may follow one another for hours
	General *pgxpool.Pool // for everything else: projections, ledger, staff

	probes singleflight.Group
}

const (
	// appendConnections is one for the committer, which has one batch in flight, and one that is ready when the first one
	// breaks. CheckSessions needs two.
	appendConnections = 2
	// accessConnections are two for API keys (auth.MaxStatements), and one that is always free for ending a stopped holder
	// of the lock.
	accessConnections  = 3
	readConnections    = 4
	historyConnections = 2
	generalConnections = 5 // two of the sealer, which reads and stores concurrently, and three for all others
	// Outside of the pools one connection reads the log, one listens, and three are of a rebuild (rebuild.Connections).
	// Those of a relay and of an erasure are not counted.
	unpooled = 5

	// Connections is how many connections to the database a process of the service uses.
	Connections = appendConnections + accessConnections + readConnections + historyConnections + generalConnections +
		unpooled
)

// LockLimits limit a transaction under the lock of the log: a pause of its client, a statement, and from PostgreSQL 17
// on the whole transaction. Together they keep a stopped or slow client from stopping all others.
var LockLimits = map[string]string{
	"idle_in_transaction_session_timeout": "2s",
	"statement_timeout":                   "5s",
	"transaction_timeout":                 "5s",
}

// LogLock is the number of the advisory lock of the log, the append lock. It locks one database.
const LogLock = 0x6e6f76656c // "novel"

// appendWait is how long a batch of the committer waits for the lock of the log before it is tried again.
const appendWait = "1s"

// indexScans are for a few fixed statements that must use index scans at every table size. A plan made for an empty
// table would be a sequential scan, and would be kept while the table grows.
var indexScans = map[string]string{
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"jit":              "off",
}

// The session settings of the pools. With the alternatives to index scans off, the generic plan is right at every size,
// and is made once. Sessions that may read slowly have no tcp_user_timeout.
var (
	appendSettings = with(with(indexScans, LockLimits), map[string]string{
		"plan_cache_mode":  "force_generic_plan",
		"lock_timeout":     appendWait,
		"tcp_user_timeout": unacknowledgedTimeout,
		"application_name": "novelgate-append",
	})
	accessSettings = with(indexScans, map[string]string{
		"plan_cache_mode":  "force_generic_plan",
		"tcp_user_timeout": unacknowledgedTimeout,
		"application_name": "novelgate-access",
	})
	readSettings = with(indexScans, map[string]string{
		"plan_cache_mode":               "force_generic_plan",
		"enable_bitmapscan":             "off",
		"enable_material":               "off",
		"enable_memoize":                "off",
		"default_transaction_read_only": "on",
		"application_name":              "novelgate-read",
	})
	// historySettings are for ranges of the log in index order.
	historySettings = map[string]string{
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off",
		"jit":               "off",
		"application_name":  "novelgate-history",
	}
	generalSettings = with(indexScans, map[string]string{
		"enable_bitmapscan": "off",
		"tcp_user_timeout":  unacknowledgedTimeout,
		"application_name":  "novelgate",
	})
)

func with(settings, more map[string]string) map[string]string {
	all := maps.Clone(settings)
	maps.Copy(all, more)
	return all
}

// commandSettings are for command-line tools. They have no tcp_user_timeout, because a tool reads rows as slowly as its
// output is read.
var commandSettings = map[string]string{
	"application_name": "novelgate",
}

// Open is OpenTraced without traces.
func Open(ctx context.Context, url string) (*Pools, error) { return OpenTraced(ctx, url, nil) }

// OpenTraced connects. It opens the connections for commands at once and keeps them. tracer, unless nil, traces the
// statements.
func OpenTraced(ctx context.Context, url string, tracer pgx.QueryTracer) (_ *Pools, err error) {
	p, seen := &Pools{}, &timelines{newest: map[string]string{}}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	config, err := ParseConfig(url, commandSettings)
	if err != nil {
		return nil, err
	}
	seen.survey(ctx, config)
	for _, pool := range []struct {
		target **pgxpool.Pool
		options
	}{
		// The committer does not ping: it detects a dead connection within its own time limit.
		{&p.Append, options{size: appendConnections, settings: appendSettings, keep: true}},
		{&p.Access, options{size: accessConnections, settings: accessSettings, ping: true, keep: true}},
		{&p.Read, options{size: readConnections, settings: readSettings, ping: true}},
		{&p.History, options{size: historyConnections, settings: historySettings, ping: true}},
		{&p.General, options{size: generalConnections, settings: generalSettings, ping: true}},
	} {
		pool.timelines, pool.tracer = seen, tracer
		if *pool.target, err = open(ctx, url, pool.options); err != nil {
			return nil, err
		}
	}
	for name, pool := range p.forCommands() {
		for range pool.Config().MaxConns {
			conn, err := pool.Acquire(ctx)
			if err != nil {
				return nil, fmt.Errorf("open pool %s: %w", name, err)
			}
			defer conn.Release()
		}
	}
	return p, nil
}

// Close closes all pools. It waits for connections in use.
func (p *Pools) Close() {
	for _, pool := range p.Named() {
		if pool != nil {
			pool.Close()
		}
	}
}

// Named returns the pools by their names in metrics.
func (p *Pools) Named() map[string]*pgxpool.Pool {
	return map[string]*pgxpool.Pool{
		"append": p.Append, "access": p.Access, "read": p.Read, "history": p.History, "general": p.General,
	}
}

// forCommands returns the pools that commands need, by the same names.
func (p *Pools) forCommands() map[string]*pgxpool.Pool {
	return map[string]*pgxpool.Pool{"append": p.Append, "access": p.Access}
}

// OpenGeneral opens a single pool for a command-line tool.
func OpenGeneral(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, options{size: 2, settings: commandSettings, ping: true, tool: true})
}

// OpenHistory opens a single pool for a command-line tool that reads the history: ranges of the log in index order.
func OpenHistory(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, options{size: 4, settings: historySettings, ping: true, tool: true})
}

// connectTimeout limits the time to open a connection, unless the URL has a connect_timeout. A request that waits for a
// connection has a time-out of its own.
const connectTimeout = time.Second

// pingTimeout limits the wait for a ping, unless the URL has a pool_ping_timeout. Within its time-out a request can
// find three dead connections and open a new one. A slower server loses a good connection, but it could not have
// completed the request in time either.
const pingTimeout = 500 * time.Millisecond

// closeTimeout limits how long an abandoned connection keeps its place in the pool. pgx waits up to 15 seconds for its
// clean-up, and when all connections of a pool go silent at once, no new one could be opened meanwhile.
const closeTimeout = time.Second

type options struct {
	size      int
	settings  map[string]string
	ping      bool       // ping an idle connection before use
	tool      bool       // of a command-line tool, whose Watch notes changes without an answer; it sees all hosts first
	keep      bool       // keep all connections open, and open lost ones again within a second
	timelines *timelines // shared by all pools of the process; nil: accept any server
	tracer    pgx.QueryTracer
}

func open(ctx context.Context, url string, o options) (*pgxpool.Pool, error) {
	config, err := ParseConfig(url, o.settings)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(o.size) //nolint:gosec // a handful
	if o.keep {
		config.MinConns, config.HealthCheckPeriod = config.MaxConns, time.Second
	}
	config.ConnConfig.Tracer = o.tracer
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	config.PingTimeout = cmp.Or(config.PingTimeout, pingTimeout)
	config.BeforeClose = limitClose
	if !o.ping {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	}
	if o.tool {
		config.ConnConfig.Tracer = changeTracer{}
		RefuseOldPrimary(ctx, config)
	}
	if o.timelines != nil {
		o.timelines.guard(config)
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap()) // binary instead of text format
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool %s of %d connections: %w", o.settings[applicationName], o.size, err)
	}
	return pool, nil
}

// limitClose closes the socket of an abandoned connection when its clean-up takes longer than closeTimeout.
func limitClose(conn *pgx.Conn) {
	if !conn.IsClosed() {
		return
	}
	select {
	case <-conn.PgConn().CleanupDone():
	case <-time.After(closeTimeout):
		_ = conn.PgConn().Conn().Close()
	}
}
