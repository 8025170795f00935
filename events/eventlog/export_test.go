package eventlog

// PollSQL is the statement with which subscriptions read.
const PollSQL = pollSQL
