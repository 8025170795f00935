package eventlog

import "novelgate/internal/database"

// RowsSQL is the statement that follows the log.
const RowsSQL = rowsSQL

// LogLock is the number of the lock of the log.
const LogLock = int64(database.LogLock)
