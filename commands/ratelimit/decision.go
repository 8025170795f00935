package ratelimit

import "time"

// Window is the length of the sliding window.
const Window = time.Minute

// Operation names what is limited. It is stored, so a name never changes.
type Operation string

// The limited operations.
const (
	Posts  Operation = "posts"  // requests to import a comment
	Novels Operation = "novels" // creations of a novel, whatever caused them
	// NovelUpdates are updates of the integration's own novels, whether or not they change anything; only some
	// integrations are limited.
	NovelUpdates Operation = "novelUpdates"
)

// Decision says what was granted and how the window looks after it.
type Decision struct {
	Granted   int // permits granted, 0 to what was wanted
	Limit     int // permits in any 60 seconds
	Remaining int // permits still free, as this replica knows; other replicas may have taken some since

	// Reset is the time until the window is full again if nobody takes anything more; 0 when it is full.
	Reset time.Duration
	// RetryAfter is 0 if everything wanted was granted. Otherwise it is the time after which one more permit is free:
	// never early, and not before that unless unused permits come back. It is at most Window, or a lease more.
	RetryAfter time.Duration

	// charged is where in the window the granted permits count, on the clock of the database: the handle by which
	// they can be returned.
	charged time.Time
}

// refusal is the answer to a limit that grants nothing ever.
func refusal() Decision {
	return Decision{RetryAfter: Window}
}
