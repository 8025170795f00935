package pages

import (
	"strings"
	"time"

	"novelgate/internal/httpkit"
)

// moment is a time for a template.
type moment struct {
	Machine string // value of the attribute datetime
	Exact   string
	Human   string // relative to now if the moment is recent
}

// Layouts of times in UTC.
const (
	machineTime = "2006-01-02T15:04:05Z"
	exactTime   = "2 January 2006, 15:04 UTC"
	humanDate   = "2 January 2006"
)

const day = 24 * time.Hour

// momentAt describes t to a reader at now. A time more than 30 days ago is shown as a date, so that pages of old
// comments keep their ETag.
func momentAt(t, now time.Time) moment {
	t = t.UTC()
	m := moment{t.Format(machineTime), t.Format(exactTime), t.Format(humanDate)}
	switch ago := now.Sub(t); {
	case ago < time.Minute: // negative if the clock of a partner is ahead, which may be by five minutes
		m.Human = "just now"
	case ago < time.Hour:
		m.Human = count(int(ago/time.Minute), "minute") + " ago"
	case ago < day:
		m.Human = count(int(ago/time.Hour), "hour") + " ago"
	case ago < 30*day:
		m.Human = count(int(ago/day), "day") + " ago"
	}
	return m
}

// exactMoment describes t for a sentence; nil for nil.
func exactMoment(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	m := momentAt(*t, *t)
	m.Human = m.Exact
	return &m
}

// count returns a number with a noun, in the plural unless n is 1: "1,200 replies".
func count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ly"): // reply, but not day
		thing = strings.TrimSuffix(thing, "y") + "ies"
	default:
		thing += "s"
	}
	return httpkit.Thousands(n) + " " + thing
}
