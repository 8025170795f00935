package projections

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed status.sql
var statusSQL string

// Status is the status of a projection.
type Status struct {
	Name       string          `json:"name"`
	Generation int             `json:"generation"`
	State      string          `json:"state"`      // Running or Failed
	Position   events.Position `json:"position"`   // number of applied events
	LagEvents  int64           `json:"lagEvents"`  // events that are not applied yet
	LagSeconds float64         `json:"lagSeconds"` // age of the oldest event that is not applied yet; 0 without any
	// why it has stopped or, while running, the error after which it retries
	Error       *string `json:"error"`
	FailedAt    *int64  `json:"failedLogIndex"`   // the event that it cannot apply
	UnknownType *string `json:"unknownEventType"` // type of the next event if it waits for a replica that knows the type
	// UpdatedAt is the time of the last change, except of the lag and the rebuild.
	UpdatedAt time.Time `json:"updatedAt"`
	// Rebuild is the unfinished rebuild; nil when there is none.
	Rebuild *RebuildStatus `json:"rebuild"`
}

// RebuildStatus is the progress of a rebuild.
type RebuildStatus struct {
	Generation  int       `json:"generation"` // of the code that rebuilds
	EventsDone  int64     `json:"eventsDone"`
	EventsTotal int64     `json:"eventsTotal"` // in the log at the start
	StartedAt   time.Time `json:"startedAt"`
	Error       *string   `json:"error"` // that ended the latest attempt; null while it runs
}

// Share is the share of EventsTotal that is done, at most 1.
func (r *RebuildStatus) Share() float64 {
	if r.EventsTotal <= 0 || r.EventsDone >= r.EventsTotal {
		return 1
	}
	return float64(r.EventsDone) / float64(r.EventsTotal)
}

// List returns the status of every asynchronous projection that has ever run, by name.
func List(ctx context.Context, q database.Querier) ([]Status, error) {
	list, err := database.Collect(ctx, q, "projections", func(row pgx.CollectableRow) (Status, error) {
		var s Status
		var generation *int
		var done, total *int64
		var started *time.Time
		var rebuildError *string
		err := row.Scan(&s.Name, &s.Generation, &s.State, &s.Position, &s.LagEvents, &s.LagSeconds, &s.Error, &s.FailedAt,
			&s.UnknownType, &s.UpdatedAt, &generation, &done, &total, &started, &rebuildError)
		if generation != nil {
			s.Rebuild = &RebuildStatus{
				Generation: *generation, EventsDone: *done, EventsTotal: *total, StartedAt: *started, Error: rebuildError,
			}
		}
		return s, err
	}, statusSQL)
	if err != nil {
		return nil, fmt.Errorf("list projections: %w", err)
	}
	return list, nil
}

// Collector exports the lag of the projections to Prometheus. Scrapes within a second share one query. If the database
// does not answer within two seconds, novelgate_projections_up is 0 and the other metrics are absent.
type Collector struct {
	list *database.ScrapeCache[[]Status]

	up, lagEvents, lagSeconds, failed, retrying, generation, rebuilt *prometheus.Desc
}

// NewCollector returns a collector that queries db. clock measures the age of a result.
func NewCollector(db database.Querier, clock func() time.Time) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("novelgate_"+name, help, labels, nil)
	}
	return &Collector{
		list:      database.NewScrapeCache(clock, func(ctx context.Context) ([]Status, error) { return List(ctx, db) }),
		up:        desc("projections_up", "Whether the state of the projections could be read."),
		lagEvents: desc("projection_lag_events", "Events that the projection has not applied yet.", "projection"),
		lagSeconds: desc("projection_lag_seconds",
			"Age of the oldest event that the projection has not applied yet; 0 when there is none.", "projection"),
		failed: desc("projection_failed", "1 when the projection has stopped before an event that it cannot apply.",
			"projection"),
		retrying: desc("projection_retrying",
			"1 while the projection retries after an error of unknown cause.", "projection"),
		generation: desc("projection_generation", "Generation of the code that writes the live tables.", "projection"),
		rebuilt: desc("projection_rebuild_done",
			"Share of the log that a rebuild of the projection has read; absent when none is unfinished.", "projection"),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.up, c.lagEvents, c.lagSeconds, c.failed, c.retrying, c.generation, c.rebuilt,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	list, err := c.list.Get()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if err != nil {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	for i := range list {
		s := &list[i]
		gauge(c.lagEvents, float64(s.LagEvents), s.Name)
		gauge(c.lagSeconds, s.LagSeconds, s.Name)
		gauge(c.failed, database.BoolValue(s.State == Failed), s.Name)
		gauge(c.retrying, database.BoolValue(s.State == Running && s.Error != nil), s.Name)
		gauge(c.generation, float64(s.Generation), s.Name)
		if s.Rebuild != nil {
			gauge(c.rebuilt, s.Rebuild.Share(), s.Name)
		}
	}
}
