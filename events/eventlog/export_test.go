package eventlog

// SettledSQL is the statement that follows the log.
const SettledSQL = rowsSQL

// Settle marks the cached window as settled.
func (t *Tail) Settle() { t.cache.Settled = true }
