// Package database opens the connection pools of the service. Each has the session settings that its work needs.
package database

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"novelgate/internal/pgarray"
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
	"synchronous_commit": "off",
	"plan_cache_mode":    "force_generic_plan",
	"application_name":   "novelgate-limits",
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

// historySettings are for walks along the log, which follow an index from where they are. A plan that was made while the
// log was empty would sort all of it once it has grown.
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

// ledgerSettings: like those of the committer, the statements are few and must be index probes and scans in order from the
// first row on. Log and ledger grow while the plans are kept.
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

// Open connects. lanes is how many batches the committer keeps in flight.
func Open(ctx context.Context, url string, lanes int) (*Pools, error) {
	p := &Pools{}
	for _, pool := range []struct {
		target   **pgxpool.Pool
		size     int
		settings map[string]string
		ping     bool // a connection that was idle, before it is handed out
	}{
		// The committer finds out by itself that a connection is dead, and within its own time.
		{&p.Append, lanes + 1, appendSettings, false},
		{&p.Limits, 3, limitsSettings, true},
		{&p.Access, accessConnections, accessSettings, true},
		{&p.Queries, 4, queriesSettings, true},
		{&p.Read, 10, readSettings, true},
		{&p.History, historyConnections, historySettings, true},
		{&p.General, 10, generalSettings, true},
		{&p.Ledger, ledgerConnections, ledgerSettings, true},
	} {
		opened, err := open(ctx, url, pool.size, pool.settings, pool.ping)
		if err != nil {
			p.Close()
			return nil, err
		}
		*pool.target = opened
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
		"append": p.Append, "limits": p.Limits, "access": p.Access, "queries": p.Queries, "read": p.Read, "history": p.History, "general": p.General, "ledger": p.Ledger,
	}
}

// OpenGeneral connects with one pool for everything, as a command-line tool needs it.
func OpenGeneral(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, 2, commandSettings, true)
}

// OpenLedger connects as Pools.Ledger does.
func OpenLedger(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, ledgerConnections, ledgerSettings, true)
}

// historyConnections is how many pages of the history are read at a time.
const historyConnections = 4

// OpenHistory connects with one pool for reading the history, as a command-line tool needs it.
func OpenHistory(ctx context.Context, url string) (*pgxpool.Pool, error) {
	return open(ctx, url, historyConnections, historySettings, true)
}

// connectTimeout bounds the making of a connection where the URL has no connect_timeout: a request that waits for one must be answered in time.
const connectTimeout = time.Second

// pingTimeout bounds the wait for the answer to a ping, unless the URL has a pool_ping_timeout. A request has time for three dead
// connections, and for a new one then. A server that takes as long to answer loses a good connection, which is made again: so slow, it
// could not have carried out the request in time either.
const pingTimeout = 500 * time.Millisecond

// farewellTimeout is how long a connection that was given up may keep its place in the pool. pgx lets it have 15 seconds to end
// what it was doing, and when all connections of a pool have gone silent at once nobody could have a new one meanwhile.
const farewellTimeout = time.Second

func open(ctx context.Context, url string, size int, settings map[string]string, ping bool) (*pgxpool.Pool, error) {
	config, err := ParseConfig(url, settings)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(size) //nolint:gosec // a handful
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTimeout
	}
	config.BeforeClose = cutFarewell
	if !ping {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgxuuid.Register(conn.TypeMap()) // otherwise they travel as text
		pgarray.Register(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool %s of %s connections: %w", settings["application_name"], strconv.Itoa(size), err)
	}
	return pool, nil
}

// cutFarewell ends the goodbye to a connection that was given up in the middle of something, unless the server answers it.
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
