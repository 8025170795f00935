package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/handover"
	"novelgate/readapi/history"
)

type eventsLost struct {
	CommonFlags
	To   *url.URL      `required:"" placeholder:"URL" help:"Public URL of the promoted service."`
	Wait time.Duration `default:"30s" help:"Longest wait until all events are sealed (default: ${default})."`
}

// Help is shown by --help.
func (*eventsLost) Help() string {
	return "Run it on the database of the former origin, after `novelgate promote --lost-origin` on the mirror. The " +
		"events are shown like those of `events list`. See docs/promotion.md."
}

// Validate refuses wrong addresses; kong calls it.
func (c *eventsLost) Validate() error { return requireHTTP("--to", c.To) }

// Run lists the events that the promoted service lacks: all events from the first difference of the ledgers on.
func (c *eventsLost) Run(ctx context.Context, out *output, pool *pgxpool.Pool) error {
	to, client := strings.TrimRight(c.To.String(), "/"), &http.Client{Timeout: successorTimeout}
	sealing, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	if err := handover.Seal(sealing, pool, out.logger(slog.LevelError)); err != nil {
		return err
	}
	// If no event is lost, first is the index after the last event.
	first, err := handover.LostFrom(ctx, pool, client, to)
	if err != nil {
		return err
	}
	return c.withAccessLog(ctx, "lost", map[string]string{"to": to}, func(pool *pgxpool.Pool) (int64, error) {
		filter := EventFilterFlags{}
		if first > 0 {
			after := first - 1
			filter.After = &after
		}
		p := &eventPrinter{out: out, list: true}
		err := filter.print(ctx, pool, &history.Stream{}, p)
		if err == nil {
			err = p.end()
		}
		if err == nil {
			fmt.Fprintf(out.stderr, "%d events of this database, from log index %d on, are not at %s.\n", p.rows, first, to)
		}
		return p.rows, err
	})
}
