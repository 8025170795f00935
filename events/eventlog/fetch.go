package eventlog

// MaxFetchBytes limits the stored bytes of the events in one read: the event that reaches the limit is the last one.
// A full chunk of typical comments is about this large, so only larger events reduce the number of events.
const MaxFetchBytes = 8 << 20

// largestEvent is the approximate size, in bytes, of the longest comment in Latin script.
const largestEvent = 32 << 10

// FetchSize is an adaptive fetch size: it limits each read of the log by events and by bytes. The sizes of events are
// not known before they are read, so a reader asks for as many events as would fit at the size of the latest ones.
// Events that do not fit are left for the next read. A FetchSize is not safe for concurrent use.
type FetchSize struct {
	maxEvents int
	eventSize int // estimated bytes of an event
	lastCount int // number of events in the last read
}

// NewFetchSize limits reads to maxEvents events. The first read assumes large events.
func NewFetchSize(maxEvents int) *FetchSize {
	return &FetchSize{maxEvents: maxEvents, eventSize: largestEvent}
}

// SetMax changes the maximum number of events.
func (f *FetchSize) SetMax(events int) { f.maxEvents = events }

// Limit returns how many events to ask the database for.
func (f *FetchSize) Limit() int { return max(1, min(f.maxEvents, MaxFetchBytes/f.eventSize)) }

// enoughBytes reports whether a read has reached its limit of bytes.
func enoughBytes(bytes int) bool { return bytes >= MaxFetchBytes }

// finishRead adapts the size of the next read to the events and bytes of this one. It reports whether more events may
// follow, because the read reached one of its limits.
func (f *FetchSize) finishRead(events, bytes int) (full bool) {
	if events == 0 {
		return false
	}
	f.lastCount = events
	average := max(1, bytes/events)
	if full = events == f.Limit() || enoughBytes(bytes); full {
		f.eventSize = average
	} else {
		f.eventSize = max(1, (f.eventSize+average)/2) // the average of a few events is a poor estimate
	}
	return full
}
