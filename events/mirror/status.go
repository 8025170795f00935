package mirror

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Status is the status of a mirror, as known to this process.
type Status struct {
	Origin        string    `json:"origin"`              // public URL
	Entries       int64     `json:"entries"`             // verified and applied events
	OriginEntries int64     `json:"originEntries"`       // events of the origin's newest checkpoint
	VerifiedAt    time.Time `json:"verifiedAt,omitzero"` // when the mirror last had all events of the newest checkpoint
	Stopped       string    `json:"stopped,omitempty"`   // reason why it has stopped
	StoppedAt     *int64    `json:"stoppedAt,omitzero"`  // log index of the first event that is wrong, or not verified
}

// Status returns the current status.
func (m *Mirror) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

func (m *Mirror) changeStatus(change func(s *Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.status)
}

// reportStop stores and logs the reason if err is a StoppedError, each reason once.
func (m *Mirror) reportStop(ctx context.Context, err error) {
	stopped, ok := errors.AsType[*StoppedError](err)
	if !ok {
		return
	}
	reported := false
	m.changeStatus(func(s *Status) {
		reported = s.Stopped == stopped.Reason.Error() && s.StoppedAt != nil && *s.StoppedAt == stopped.LogIndex
		s.Stopped, s.StoppedAt = stopped.Reason.Error(), &stopped.LogIndex
	})
	m.cleared = false
	if reported {
		return
	}
	if err := m.saveStop(ctx, stopped); err != nil {
		m.config.Logger.WarnContext(ctx, "The reason is not stored", slog.Any("error", err))
	}
	m.config.Logger.ErrorContext(ctx, "The mirror has stopped: it cannot verify or read what the origin delivers",
		slog.Int64("logIndex", stopped.LogIndex), slog.Any("error", stopped.Reason))
}

var (
	entriesDesc = prometheus.NewDesc("novelgate_mirror_entries",
		"Events that the mirror has verified and applied.", nil, nil)
	originDesc = prometheus.NewDesc("novelgate_mirror_origin_entries",
		"Events that the newest checkpoint of the origin covers.", nil, nil)
	verifiedDesc = prometheus.NewDesc("novelgate_mirror_verified_timestamp_seconds",
		"When the mirror last had all that the origin had signed; 0 before.", nil, nil)
	stoppedDesc = prometheus.NewDesc("novelgate_mirror_stopped",
		"1 while the mirror applies nothing because it cannot verify or read what the origin delivers.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Mirror) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{entriesDesc, originDesc, verifiedDesc, stoppedDesc} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Mirror) Collect(metrics chan<- prometheus.Metric) {
	if m.ended.Load() {
		return
	}
	s := m.Status()
	verified, stopped := 0.0, 0.0
	if !s.VerifiedAt.IsZero() {
		verified = float64(s.VerifiedAt.UnixMilli()) / float64(time.Second/time.Millisecond)
	}
	if s.Stopped != "" {
		stopped = 1
	}
	for desc, value := range map[*prometheus.Desc]float64{
		entriesDesc: float64(s.Entries), originDesc: float64(s.OriginEntries), verifiedDesc: verified, stoppedDesc: stopped,
	} {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
}
