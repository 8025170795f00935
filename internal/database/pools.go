// Package database opens the connection pools of the service. Each has the session settings that its work needs.
package database

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
	"golang.org/x/sync/singleflight"
)

// Pools are the connections of one process to its database.
type Pools struct {
	Append  *pgxpool.Pool // the committer's
	Limits  *pgxpool.Pool // the rate limiter's: losing its last moments in a crash of the database does no harm
	Access  *pgxpool.Pool // that of authentication
	Queries *pgxpool.Pool // partners' queries: however many they are, they take no connection from anybody else
	Read    *pgxpool.Pool // the readers': however many they are, they take no connection from anybody else
	History *pgxpool.Pool // auditors': an export takes no connection from anybody else
	General *pgxpool.Pool // everything else
	Ledger  *pgxpool.Pool // that of sealing, signing and publishing the ledger

	room   room
	scarce bool // the pools are smaller than would be of use
	ideal  int  // connections that would be of use
	probes singleflight.Group
}

// appendSettings are the session settings of the committer. Its statements are few, always the same, and must be
// index probes from the first row on: a plan made while a table was empty would be a sequential scan, and would be
// kept while the table grows. With the alternatives off, the generic plan is right at every size and is made once.
var appendSettings = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"jit":              "off",
	// A writer that waits for another one decides again rather than wait long; see events/eventlog.
	"lock_timeout":     "20ms",
	"tcp_user_timeout": unansweredByUs,
	"application_name": "novelgate-append",
}

var limitsSettings = map[string]string{
	synchronousCommit:  "off",
	"plan_cache_mode":  "force_generic_plan",
	"application_name": "novelgate-limits",
}

// accessSettings: like those of the committer, the look-ups of API keys must be index probes from the first row on.
var accessSettings = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"jit":              "off",
	"tcp_user_timeout": unansweredByUs,
	"application_name": "novelgate-access",
}

// accessConnections: two look-ups of API keys of integrations at a time, and one of persons; see commands/access.
const accessConnections = 3

// queriesSettings are for what partners ask. They write nothing.
var queriesSettings = map[string]string{
	"jit":                           "off",
	"default_transaction_read_only": "on",
	"application_name":              "novelgate-queries",
}

// readSettings are for the statements of readers, which are few, too, and all of them index probes at every size. They
// write nothing.
var readSettings = map[string]string{
	"plan_cache_mode":               "force_generic_plan",
	"enable_seqscan":                "off",
	"enable_bitmapscan":             "off",
	"enable_hashjoin":               "off",
	"enable_mergejoin":              "off",
	"enable_material":               "off",
	"enable_memoize":                "off",
	"jit":                           "off",
	"default_transaction_read_only": "on",
	"application_name":              "novelgate-read",
}

// historySettings are for walks along the log, which follow an index from where they are. A plan that was made while
// the log was empty would sort all of it once it has grown.
var historySettings = map[string]string{
	"enable_seqscan":    "off",
	"enable_bitmapscan": "off",
	"jit":               "off",
	"application_name":  "novelgate-history",
}

var generalSettings = map[string]string{
	"tcp_user_timeout": unansweredByUs,
	"application_name": "novelgate",
}

// commandSettings are for command-line tools, which may take in rows as slowly as whoever reads what they print.
var commandSettings = map[string]string{
	"application_name": "novelgate",
}

// ledgerSettings: like those of the committer, the statements are few and must be index probes and scans in order from
// the first row on. Log and ledger grow while the plans are kept.
var ledgerSettings = map[string]string{
	"enable_seqscan":    "off",
	"enable_bitmapscan": "off",
	"enable_hashjoin":   "off",
	"enable_mergejoin":  "off",
	"jit":               "off",
	"tcp_user_timeout":  unansweredByUs,
	"application_name":  "novelgate-ledger",
}

// ledgerConnections: the sealer reads and stores at the same time, the signer and publishers come on top.
const ledgerConnections = 4

// Open connects. lanes is how many batches the committer keeps in flight. The connections that commands need are opened
// first and kept; it fails with ErrTooFew when the server has too few for them, and makes all pools smaller when it has
// too few for everything.
func Open(ctx context.Context, url string, lanes int) (*Pools, error) {
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
		settings map[string]string
		ping     bool // a connection that was idle, before it is handed out
		keep     bool // for commands
	}{
		{&p.Queries, share{1, 4}, queriesSettings, true, false},
		{&p.Read, share{1, 10}, readSettings, true, false},
		{&p.History, share{1, historyConnections}, historySettings, true, false},
		{&p.General, share{2, 10}, generalSettings, true, false},
		{&p.Ledger, share{3, ledgerConnections}, ledgerSettings, true, false},
		// Those for commands come last, as they connect at once, and may call makeRoom. The committer finds out by itself
		// that a connection is dead, and within its own time.
		{&p.Append, share{lanes, lanes + 1}, appendSettings, false, true},
		{&p.Limits, share{1, 3}, limitsSettings, true, true},
		{&p.Access, share{1, accessConnections}, accessSettings, true, true},
	}
	var shares []share
	p.ideal = unpooled
	for _, pool := range pools {
		shares = append(shares, pool.share)
		p.ideal += pool.most
	}
	met := &timelines{newest: map[string]string{}}
	sizes, scarce := p.room.divide(shares)
	p.scarce = scarce
	for i, pool := range pools {
		o := options{size: sizes[i], settings: pool.settings, ping: pool.ping, keep: pool.keep, scarce: p.scarce, met: met}
		if pool.keep {
			o.full = p.makeRoom
		}
		if *pool.target, err = open(ctx, url, o); err != nil {
			p.Close()
			return nil, err
		}
	}
	if err := p.reserve(ctx, p.room); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes what is open. It waits for connections that are in use.
func (p *Pools) Close() {
	for _, pool := range []*pgxpool.Pool{p.Append, p.Limits, p.Access, p.Queries, p.Read, p.History, p.General, p.Ledger} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Named returns the pools by the names that metrics use.
func (p *Pools) Named() map[string]*pgxpool.Pool {
	return map[string]*pgxpool.Pool{
		"append": p.Append, "limits": p.Limits, "access": p.Access, "queries": p.Queries, "read": p.Read,
		"history": p.History, "general": p.General, "ledger": p.Ledger,
	}
}

// forCommands returns the pools that commands need, by the same names.
func (p *Pools) forCommands() map[string]*pgxpool.Pool {
	return map[string]*pgxpool.Pool{"append": p.Append, "limits": p.Limits, "access": p.Access}
}

// OpenGeneral connects with one pool for everything, as a command-line tool needs it.
func OpenGeneral(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, options{size: 2, settings: commandSettings, ping: true})
}

// OpenLedger connects as Pools.Ledger does.
func OpenLedger(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, options{size: ledgerConnections, settings: ledgerSettings, ping: true})
}

// historyConnections is how many pages of the history are read at a time.
const historyConnections = 4

// OpenHistory connects with one pool for reading the history, as a command-line tool needs it.
func OpenHistory(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, options{size: historyConnections, settings: historySettings, ping: true})
}

// connectTimeout bounds the making of a connection where the URL has no connect_timeout: a request that waits for one
// must be answered in time.
const connectTimeout = time.Second

// pingTimeout bounds the wait for the answer to a ping, unless the URL has a pool_ping_timeout. A request has time for
// three dead connections, and for a new one then. A server that takes as long to answer loses a good connection, which
// is made again: so slow, it could not have carried out the request in time either.
const pingTimeout = 500 * time.Millisecond

// farewellTimeout is how long a connection that was given up may keep its place in the pool. pgx lets it have 15
// seconds to end what it was doing, and when all connections of a pool have gone silent at once nobody could have a new
// one meanwhile.
const farewellTimeout = time.Second

// keepInterval is how soon lost connections of commands are opened again when nobody asks for them, and scarceIdleTime
// how long others stay open for nobody where connections are scarce.
const (
	keepInterval   = time.Second
	scarceIdleTime = 5 * time.Second
)

type options struct {
	size     int
	settings map[string]string
	ping     bool       // a connection that was idle, before it is handed out
	keep     bool       // all connections, at all times
	scarce   bool       // leave none open for nobody
	full     func()     // called when the server has no connection left for this pool
	met      *timelines // of all pools of the process; nil: any server will do
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
	config.BeforeClose = cutFarewell
	if !o.ping {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	}
	if o.full != nil {
		onError(config.ConnConfig, tooManyConnections, o.full)
	}
	if o.met != nil {
		o.met.guard(config.ConnConfig)
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap()) // otherwise they travel as text
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool %s of %s connections: %w", o.settings[applicationName], strconv.Itoa(o.size), err)
	}
	return pool, nil
}

// cutFarewell ends the goodbye to a connection that was given up in the middle of something, unless the server answers
// it.
func cutFarewell(conn *pgx.Conn) {
	if !conn.IsClosed() {
		return
	}
	select {
	case <-conn.PgConn().CleanupDone():
	case <-time.After(farewellTimeout):
		_ = conn.PgConn().Conn().Close()
	}
}
