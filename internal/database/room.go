package database

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrTooFewConnections refuses a server with too few connections for commands.
var ErrTooFewConnections = errors.New("the database server lets this role have too few connections")

// tooManyConnections is the SQLSTATE of a server, a role or a database without free connections.
const tooManyConnections = "53300"

// Connections outside the pools: one that reads the log, two for LISTEN, and three of a rebuild (rebuild.Connections).
// Those of a relay and of an erasure are not counted.
const (
	leastUnpooled = 3
	unpooled      = leastUnpooled + 3
)

// leastGeneral is two connections for the sealer, which reads and stores concurrently, and one for all others.
const leastGeneral = 3

// The minimums of the other pools.
const leastAccess, leastRead, leastHistory = 1, 1, 1

const (
	// LeastConnections is the minimum number of connections with which a process does all of its work.
	LeastConnections = leastCommands + leastRead + leastHistory + leastGeneral + unpooled - leastUnpooled

	// DefaultConnections is the number of connections for good throughput.
	DefaultConnections = 20

	// leastCommands is the minimum number of connections with which a process executes commands.
	leastCommands = appendConnections + leastAccess + leastUnpooled
)

// room is the number of connections that the role may open to its database.
type room struct {
	most           int // in total
	left           int // besides those that exist
	maxConnections int // setting of the server, for messages
}

// roomSQL measures the room. Reserved connections and the limits of a role or a database do not apply to superusers.
// Its own session is not counted.
const roomSQL = `WITH used AS (
    SELECT count(*) - 1 AS all_of_them, count(*) FILTER (WHERE a.datname = current_database()) - 1 AS of_database,
           count(*) FILTER (WHERE a.usename = session_user) - 1 AS of_role
    FROM pg_stat_activity AS a WHERE a.datid IS NOT NULL
), limits AS (
    SELECT current_setting('max_connections')::int - CASE WHEN r.rolsuper THEN 0 ELSE
               current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections',
                   true)::int, 0) END AS of_server,
           CASE WHEN NOT r.rolsuper AND d.datconnlimit >= 0 THEN d.datconnlimit END AS of_database,
           CASE WHEN NOT r.rolsuper AND r.rolconnlimit >= 0 THEN r.rolconnlimit END AS of_role
    FROM pg_roles AS r, pg_database AS d WHERE r.rolname = session_user AND d.datname = current_database()
)
SELECT least(l.of_server, l.of_database, l.of_role),
       greatest(least(l.of_server - u.all_of_them, l.of_database - u.of_database, l.of_role - u.of_role), 0),
           current_setting('max_connections')::int
FROM limits AS l, used AS u`

func measureRoom(ctx context.Context, config *pgx.ConnConfig) (r room, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return room{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only read from
	if err := conn.QueryRow(ctx, roomSQL, pgx.QueryExecModeExec).Scan(&r.most, &r.left, &r.maxConnections); err != nil {
		return room{}, fmt.Errorf("count connections: %w", err)
	}
	return r, nil
}

// refuse returns ErrTooFewConnections with the number of connections that commands need.
func (r room) refuse(commands int) error {
	return fmt.Errorf("%w: commands need %d, and %d of %d are left: raise max_connections (%d), or the connection limit "+
		"of the role or the database",
		ErrTooFewConnections, commands, r.left, r.most, r.maxConnections)
}

// share is the range of a pool's size: the minimum with which its work continues, and the maximum that it can use.
type share struct{ least, most int }

// divide returns the sizes of pools that share a number of connections: the minimums, and then one more for each in
// turn, the last pool first, as long as connections are left.
func divide(shares []share, connections int) []int {
	sizes := make([]int, len(shares))
	for i, s := range shares {
		sizes[i] = s.least
		connections -= s.least
	}
	for grown := true; grown; {
		grown = false
		for i, s := range slices.Backward(shares) {
			if connections > 0 && sizes[i] < s.most {
				sizes[i]++
				connections--
				grown = true
			}
		}
	}
	return sizes
}

// reserve opens all connections of the pools for commands, which keep them.
func (p *Pools) reserve(ctx context.Context) error {
	var held []*pgxpool.Conn
	defer func() {
		for _, conn := range held {
			conn.Release()
		}
	}()
	commands := 0
	for _, pool := range p.forCommands() {
		commands += int(pool.Config().MaxConns)
	}
	if p.room.most < commands+leastUnpooled {
		return p.room.refuse(commands + leastUnpooled)
	}
	for name, pool := range p.forCommands() {
		for range pool.Config().MaxConns {
			conn, err := pool.Acquire(ctx)
			if isFull(err) {
				return p.room.refuse(commands)
			}
			if err != nil {
				return fmt.Errorf("open pool %s: %w", name, err)
			}
			held = append(held, conn)
		}
	}
	return nil
}

// Scarcity returns a warning that background work may lack connections, or "".
func (p *Pools) Scarcity() string {
	if !p.scarce && p.room.left >= p.ideal {
		return ""
	}
	return fmt.Sprintf("The database server has %d of %d connections left for this replica, which can use %d: commands "+
		"keep theirs; projections, ledger, readers and rebuilds get what remains and may stand still. Raise max_connections "+
		"(%d), or the connection limit of the role or the database.",
		p.room.left, p.room.most, p.ideal, p.room.maxConnections)
}

// makeRoom closes the connections of all other pools, idle ones at once and used ones on release, so that commands get
// theirs first.
func (p *Pools) makeRoom() {
	for _, pool := range []*pgxpool.Pool{p.Read, p.History, p.General} {
		pool.Reset()
	}
}

// FullAdvice says what to do about a server without a free connection.
const FullAdvice = "raise max_connections, or the connection limit of the role or the database, or lower " +
	"--database-connections of the replicas; `novelgate doctor` counts connections, as a superuser also on a full server"

// FullServer returns the refusal of a server, a database or a role without a free connection, if err is one.
func FullServer(err error) (refused *pgconn.PgError, ok bool) {
	ok = errors.As(err, &refused) && refused.Code == tooManyConnections
	return refused, ok
}

func isFull(err error) bool {
	_, full := FullServer(err)
	return full
}
