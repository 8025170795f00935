package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"novelgate/events/eventlog"
	"novelgate/events/handover"
	"novelgate/events/ledger"
	"novelgate/events/relay"
)

const (
	successorPause   = 5 * time.Second  // between two checks
	successorTimeout = 5 * time.Second  // of a request to one service
	startTimeout     = 2 * time.Second  // of the check before the start
	fenceTimeout     = 20 * time.Second // of one attempt, also while the service stops
)

// successorWatch looks for another service that was promoted in place of this one.
type successorWatch struct {
	*service
	urls   []string // public URLs to ask
	memory string   // of the ledger
	relay  *RelayFlags
	client *http.Client
	silent map[string]bool // places that did not answer the last time

	found *relay.Promotion // of the successor; nil without one, or once the database is fenced
}

// addSuccessorWatch looks for a successor before the start, and then every few seconds while this service accepts
// commands. When it finds one, this service refuses commands, and fences its database.
func (s *service) addSuccessorWatch(ctx context.Context, c *serveCommand) error {
	if s.isSandbox {
		return nil
	}
	_, memory := c.Ledger.files(c.DataDir)
	w := &successorWatch{
		service: s, memory: memory, relay: &c.Relay, client: &http.Client{Timeout: successorTimeout},
		silent: map[string]bool{},
	}
	// This service does not answer at its own URL before it has started. Later its promoted mirror may answer there.
	var afterStart []string
	for _, u := range c.Successors {
		if url := u.String(); url == s.publicURL.String() {
			afterStart = append(afterStart, url)
		} else {
			w.urls = append(w.urls, url)
		}
	}
	if s.roles.last().Appends() {
		asking, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		if err := w.check(asking); err != nil && w.found == nil { // if one was found, only the fence failed: run repeats it
			return err
		}
		if err := s.roles.read(ctx); err != nil { // what check has found changes the role
			return err
		}
	}
	w.urls = append(w.urls, afterStart...)
	s.background = append(s.background, w.run)
	return nil
}

// run checks for a successor until ctx ends.
func (w *successorWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.check(ctx); err != nil && ctx.Err() == nil {
			w.logger.ErrorContext(ctx, "It is not known whether this service was replaced, or its database is not fenced",
				slog.Any("error", err))
		}
		eventlog.Sleep(ctx, successorPause)
	}
}

// check looks for a successor while this service accepts commands, and fences the database if one was found now or
// earlier: the fence needs a lock that a VACUUM may hold for hours. Once fenced, the role comes from the database.
func (w *successorWatch) check(ctx context.Context) error {
	if w.found == nil && w.roles.last().Appends() {
		if err := w.detect(ctx); err != nil {
			return err
		}
	}
	if w.found == nil {
		return nil
	}
	fencing, cancel := context.WithTimeout(context.WithoutCancel(ctx), fenceTimeout)
	defer cancel()
	err := handover.Fence(fencing, w.db.pools.General, w.found.ID, w.found.URL)
	if err == nil {
		w.found = nil
		w.roles.replaced.Store(nil)
	}
	return err
}

// detect asks all places for a successor. If one of them knows a successor, this service refuses commands from then on.
// A place that does not answer is no reason to refuse commands. detect fails if the database does not answer.
func (w *successorWatch) detect(ctx context.Context) error {
	found, place, err := w.find(ctx)
	if err != nil || found == nil {
		return err
	}
	w.logger.ErrorContext(ctx, "Another service was promoted in place of this one: it accepts no commands any more",
		slog.String("successor", found.URL), slog.String("found", place))
	w.found = found
	w.roles.replaced.Store(&found.URL)
	return nil
}

// find returns the promotion of a successor and the place that knows it; nil without one. It reads the memory of the
// ledger, and then asks all other places at once: the first promotion counts.
func (w *successorWatch) find(ctx context.Context) (found *relay.Promotion, place string, err error) {
	known, err := handover.Known(ctx, w.db.pools.General)
	if err != nil {
		return nil, "", err
	}
	retired, ok, err := ledger.ReadRetirement(w.memory)
	w.note(ctx, "the memory of the ledger", err)
	found = &relay.Promotion{ID: retired.Promotion, URL: retired.Successor}
	if ok && found.Replaces(known) {
		return found, w.memory, nil
	}
	places := w.places()
	type answer struct {
		place string
		found *relay.Promotion
		err   error
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answers := make(chan answer, len(places))
	for place, ask := range places {
		go func() {
			found, err := ask(asking)
			answers <- answer{place, found, err}
		}()
	}
	for range places {
		a := <-answers
		w.note(ctx, a.place, a.err)
		if a.found.Replaces(known) {
			return a.found, a.place, nil
		}
	}
	return nil, "", nil
}

// places returns for each place but the memory a function that asks it for a promotion; nil without one.
func (w *successorWatch) places() map[string]func(context.Context) (*relay.Promotion, error) {
	places := map[string]func(context.Context) (*relay.Promotion, error){}
	for _, url := range w.urls {
		places[url] = func(ctx context.Context) (*relay.Promotion, error) {
			p, err := handover.FindSuccessor(ctx, w.db.pools.General, w.client, url)
			if p == nil {
				return nil, err
			}
			return &relay.Promotion{ID: p.ID, URL: url, At: p.PromotedAt}, nil
		}
	}
	if w.relay.URL != "" {
		places["NATS"] = w.askRelay
	}
	return places
}

// askRelay looks for a promotion in the metadata of this ledger's stream; nil without one.
func (w *successorWatch) askRelay(ctx context.Context) (*relay.Promotion, error) {
	conn, err := w.relay.connect(ctx, w.logger, true)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	sealed, err := ledger.ReadSealed(ctx, w.db.pools.General)
	if err != nil || sealed.Origin() == "" {
		return nil, err
	}
	return relay.FindPromotion(ctx, conn, sealed.Origin())
}

// note logs that a place has stopped answering.
func (w *successorWatch) note(ctx context.Context, place string, err error) {
	if err != nil && !w.silent[place] && ctx.Err() == nil {
		w.logger.WarnContext(ctx, "It is not known whether another service was promoted", slog.String("place", place),
			slog.Any("error", err))
	}
	w.silent[place] = err != nil
}
