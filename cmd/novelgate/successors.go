package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/events/eventlog"
	"novelgate/events/handover"
	"novelgate/events/ledger"
	"novelgate/events/relay"
)

const (
	successorPause   = 5 * time.Second // between two looks
	successorTimeout = 5 * time.Second // of a request to one service
	startTimeout     = 2 * time.Second // of the look before the start
)

// successorWatch looks for another service that was promoted in place of this one.
type successorWatch struct {
	*service
	urls   []string // public URLs to ask
	memory string   // of the ledger
	relay  *RelayFlags
	client *http.Client
	silent map[string]bool // places that did not answer last time
}

// addSuccessorWatch looks for a promotion before the start, and then every few seconds while this service appends. When
// it finds one, it fences the database.
func (s *service) addSuccessorWatch(ctx context.Context, c *serveCommand) error {
	if s.isSandbox {
		return nil
	}
	_, memory := ledgerFiles(c.Ledger.Key, c.Ledger.Memory, c.DataDir)
	w := &successorWatch{
		service: s, memory: memory, relay: &c.Relay, client: &http.Client{Timeout: successorTimeout},
		silent: map[string]bool{},
	}
	self := strings.TrimRight(c.PublicURL, "/")
	var afterStart []string // before it, this service does not answer at its own URL
	for _, u := range c.Successors {
		url := strings.TrimRight(u.String(), "/")
		if url == self {
			afterStart = append(afterStart, url)
		} else {
			w.urls = append(w.urls, url)
		}
	}
	if s.roles.last().Appends() {
		asking, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		if err := w.look(asking); err != nil {
			return err
		}
		if err := s.roles.read(ctx); err != nil {
			return err
		}
	}
	w.urls = append(w.urls, afterStart...)
	s.asOrigin = append(s.asOrigin, func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := w.look(ctx); err != nil && ctx.Err() == nil {
				s.logger.ErrorContext(ctx, "It is not known whether this service was replaced, or its database is not fenced",
					slog.Any("error", err))
			}
			eventlog.Sleep(ctx, successorPause)
		}
	})
	return nil
}

// look asks all places, and fences the database if one of them knows a successor. A place that does not answer is no
// reason to refuse commands. It fails if the fence fails, or the database does not answer.
func (w *successorWatch) look(ctx context.Context) error {
	fence := func(id uuid.UUID, url, place string) error {
		w.logger.ErrorContext(ctx, "Another service was promoted in place of this one: it accepts no commands any more",
			slog.String("successor", url), slog.String("found", place))
		return handover.Fence(context.WithoutCancel(ctx), w.db.pools.General, id, url)
	}
	known, err := handover.Known(ctx, w.db.pools.General)
	if err != nil {
		return err
	}
	retired, ok, err := ledger.ReadRetirement(w.memory)
	w.note(ctx, "the memory of the ledger", err)
	if ok && handover.Successor(known, []handover.Promotion{{ID: retired.Promotion}}) != nil {
		return fence(retired.Promotion, retired.Successor, w.memory)
	}
	for _, url := range w.urls {
		p, err := handover.FindSuccessor(ctx, w.db.pools.General, w.client, url)
		w.note(ctx, url, err)
		if p != nil {
			return fence(p.ID, url, url)
		}
	}
	if w.relay.URL == "" {
		return nil
	}
	p, err := w.inRelay(ctx)
	w.note(ctx, "NATS", err)
	if p.Replaces(known) {
		return fence(p.ID, p.URL, "NATS")
	}
	return nil
}

// inRelay looks for a promotion in the metadata of this ledger's stream; nil without one.
func (w *successorWatch) inRelay(ctx context.Context) (*relay.Promotion, error) {
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

// note logs when a place stops answering.
func (w *successorWatch) note(ctx context.Context, place string, err error) {
	if err != nil && !w.silent[place] && ctx.Err() == nil {
		w.logger.WarnContext(ctx, "It is not known whether another service was promoted", slog.String("place", place),
			slog.Any("error", err))
	}
	w.silent[place] = err != nil
}
