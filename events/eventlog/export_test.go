package eventlog

// SettledSQL is the statement that reads the log as it grows.
const SettledSQL = settledSQL
