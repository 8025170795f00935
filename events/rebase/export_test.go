package rebase

// RefuseSize says what is said of a log of so many events.
func RefuseSize(events int64) error { return findings{events: events}.refusal() }
