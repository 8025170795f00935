package eventlog

// SettledSQL is the statement that reads the log as it grows.
const SettledSQL = rowsSQL

// Settle makes what is kept look as if nothing else ran on the server when it was read.
func (t *Tail) Settle() { t.kept.Settled = true }
