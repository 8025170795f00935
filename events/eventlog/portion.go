package eventlog

// PortionBytes is how much the events that a reader of the log takes at a time may say, in bytes of what is stored of
// them: no event is taken behind the one that reaches it. It is what chunkSize comments of ordinary size come to, so
// only larger ones make portions of fewer events.
const PortionBytes = 8 << 20

// largestEvent is about what the largest event says that a partner can cause.
const largestEvent = 32 << 10

// Portion bounds what a reader of the log holds, by events and by bytes. The database can tell how large events are
// only by reading them, so a reader asks for as many as would fit if they were as large as the latest ones, and leaves
// what does not fit for the next time. Create it with NewPortion; it is used by one goroutine at a time.
type Portion struct {
	most int // events
	size int // of an event, as far as is known
}

// NewPortion returns a portion of at most so many events. Its first one is made for large events.
func NewPortion(events int) *Portion { return &Portion{most: events, size: largestEvent} }

// Ask returns how many events to ask the database for.
func (p *Portion) Ask() int { return max(1, min(p.most, PortionBytes/p.size)) }

// spent reports whether events that say so much are enough.
func spent(bytes int) bool { return bytes >= PortionBytes }

// took notes that so many events were taken of those asked for, and reports whether there may be more right behind
// them.
func (p *Portion) took(asked, events, bytes int) (full bool) {
	if events == 0 {
		return false
	}
	latest := max(1, bytes/events)
	if full = events == asked || spent(bytes); full {
		p.size = latest
	} else {
		p.size = max(1, (p.size+latest)/2) // a few events say little about those to come
	}
	return full
}
