// Package database connects to PostgreSQL: connection pools with session settings for their work, and notifications. It
// checks servers before they are used, and finds out when they fail.
package database

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
	"golang.org/x/sync/singleflight"
)

// Pools are the connections of one process to its database.
type Pools struct {
	Append  *pgxpool.Pool // for the committer
	Access  *pgxpool.Pool // for authentication
	Read    *pgxpool.Pool // for readers and partners' queries, so that they do not take connections from other work
	History *pgxpool.Pool // for auditors, separate for the same reason
	General *pgxpool.Pool // for everything else: projections, ledger, staff

	room   room
	scarce bool // the server has fewer connections than this process can use
	ideal  int  // connections that this process can use
	probes singleflight.Group
}

// LockLimits limit a transaction under the lock of the log: a pause of its client, a statement, and from PostgreSQL 17
// on the whole transaction. Together they keep a stopped or slow client from stopping all others.
var LockLimits = map[string]string{
	"idle_in_transaction_session_timeout": "2s",
	"statement_timeout":                   "5s",
	"transaction_timeout":                 "5s",
}

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
	// Range reads of the log in index order.
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

// appendConnections is one for the committer, which has one batch in flight, and one that is ready when the first one
// breaks. CheckSessions needs two.
const appendConnections = 2

// accessConnections allows two concurrent queries for API keys of integrations, and one for those of staff users; see
// internal/auth.
const accessConnections = 3

// commandSettings are for command-line tools. They have no tcp_user_timeout, because a tool reads rows as slowly as its
// output is read.
var commandSettings = map[string]string{
	"application_name": "novelgate",
}

// Open connects. most is the maximum number of connections of the process, at least LeastConnections. Open opens the
// connections for commands first and keeps them. It fails with ErrTooFewConnections when the server has too few
// connections for commands. When there are too few for all pools, it makes the pools smaller.
func Open(ctx context.Context, url string, most int) (*Pools, error) {
	config, err := ParseConfig(url, generalSettings)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	p := &Pools{}
	if p.room, err = measureRoom(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	pools := []struct {
		target **pgxpool.Pool
		share
		options
	}{
		{&p.History, share{leastHistory, historyConnections}, options{settings: historySettings, ping: true}},
		{&p.Read, share{leastRead, 14}, options{settings: readSettings, ping: true}},
		{&p.General, share{leastGeneral, 14}, options{settings: generalSettings, ping: true}},
		// The pools for commands come last, because they connect at once and may call makeRoom. The committer does not
		// ping: it detects a dead connection within its own time limit.
		{&p.Access, share{leastAccess, accessConnections}, options{settings: accessSettings, ping: true, keep: true}},
		{&p.Append, share{appendConnections, appendConnections}, options{settings: appendSettings, keep: true}},
	}
	var shares []share
	p.ideal = unpooled
	for _, pool := range pools {
		shares = append(shares, pool.share)
		p.ideal += pool.most
	}
	p.ideal = min(p.ideal, most)
	seen := &timelines{newest: map[string]string{}}
	p.scarce = p.room.most < p.ideal
	sizes := divide(shares, min(p.room.most, p.ideal)-unpooled)
	for i, pool := range pools {
		pool.size, pool.scarce, pool.timelines = sizes[i], p.scarce, seen
		if pool.keep {
			pool.onFull = p.makeRoom
		}
		if *pool.target, err = open(ctx, url, pool.options); err != nil {
			p.Close()
			return nil, err
		}
	}
	if err := p.reserve(ctx); err != nil {
		p.Close()
		return nil, err
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
	return open(ctx, url, options{size: 2, settings: commandSettings, ping: true})
}

// historyConnections is the number of pages of the history that are read concurrently.
const historyConnections = 4

// OpenHistory opens a single pool for a command-line tool that reads the history.
func OpenHistory(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, options{size: historyConnections, settings: historySettings, ping: true})
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

const (
	keepInterval   = time.Second     // at which lost connections for commands are opened again, also without a request
	scarceIdleTime = 5 * time.Second // after which other connections are closed when connections are scarce
)

type options struct {
	size      int
	settings  map[string]string
	ping      bool       // ping an idle connection before use
	keep      bool       // keep all connections open
	scarce    bool       // close idle connections soon
	onFull    func()     // called when the server has no connection left for this pool
	timelines *timelines // shared by all pools of the process; nil: accept any server
}

func open(ctx context.Context, url string, o options) (*pgxpool.Pool, error) {
	config, err := ParseConfig(url, o.settings)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(o.size) //nolint:gosec // a handful
	if o.keep {
		config.MinConns, config.HealthCheckPeriod = config.MaxConns, keepInterval
	} else if o.scarce {
		config.MaxConnIdleTime, config.HealthCheckPeriod = scarceIdleTime, scarceIdleTime
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	config.PingTimeout = cmp.Or(config.PingTimeout, pingTimeout)
	config.BeforeClose = limitClose
	if !o.ping {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	}
	if o.onFull != nil {
		onError(config.ConnConfig, tooManyConnections, o.onFull)
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
		return nil, fmt.Errorf("open pool %s of %s connections: %w", o.settings[applicationName], strconv.Itoa(o.size), err)
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
