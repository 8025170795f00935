package database

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// rollbackTimeout limits the rollback of a failed transaction.
const rollbackTimeout = 5 * time.Second

// Release returns a connection to its pool. It rolls back an open transaction, also after ctx has ended; if this fails,
// the pool closes the connection.
func Release(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, "rollback")
	}
	conn.Release()
}
