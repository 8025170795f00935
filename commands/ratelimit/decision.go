package ratelimit

import "time"

// Window is the length of the sliding window.
const Window = time.Minute

// Operation is a limited operation. Its name is stored, so it never changes.
type Operation string

// The limited operations.
const (
	Posts  Operation = "posts"  // requests to import a comment
	Novels Operation = "novels" // creations of a novel, by an upsert or by a comment
	// NovelUpdates are updates of the integration's own novels, also those without changes. The limit is optional.
	NovelUpdates Operation = "novelUpdates"
)

// Decision is the result of a take, and the state of the window after it.
type Decision struct {
	Granted   int // permits granted, 0 to what was wanted
	Limit     int // permits in any 60 seconds
	Remaining int // free permits as known to this replica; other replicas may have taken some since

	// Reset is the time until all permits are free, without further takes; 0 when they are.
	Reset time.Duration
	// RetryAfter is 0 if all wanted permits were granted. Otherwise it is the time until one more permit is free, which is
	// exact unless unused permits are returned earlier. It is at most Window plus the length of a lease.
	RetryAfter time.Duration

	// charged is the time by the database's clock at which the granted permits count. Return needs it.
	charged time.Time
}

// refusal is the decision for a limit of 0 or less.
func refusal() Decision {
	return Decision{RetryAfter: Window}
}
