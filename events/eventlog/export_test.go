package eventlog

// RowsSQL is the statement that follows the log.
const RowsSQL = rowsSQL

// Settle marks the cached window as settled.
func (t *Tail) Settle() { t.cache.Settled = true }

// LogLock is the number of the lock of the log.
const LogLock = int64(logLock)
