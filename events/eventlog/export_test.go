package eventlog

// SettledSQL is the statement that reads the log as it grows.
const SettledSQL = settledSQL

// Keep keeps a chunk as if it had been read.
func (t *Tail) Keep(chunk Chunk) { t.keep(chunk) }
