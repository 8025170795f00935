package request

import (
	"errors"
	"strings"
	"time"
)

const (
	wantTimestamp = "must be ISO 8601 with date, time and time zone, such as 2024-05-01T10:00:00Z or " +
		"2024-05-01T12:00:00.123+02:00"
	wantZone = "must have an explicit time zone: Z, or an offset such as +02:00"
	wantReal = "must be a moment that exists, in the years 0001 to 9999"
)

// The layouts of dates, times and offsets, by length. The length matters, because time.Parse also accepts hours with
// one digit.
var (
	dateLayouts   = map[int]string{len("2006-01-02"): "2006-01-02", len("20060102"): "20060102"}
	offsetLayouts = map[int]string{len("15:04"): "15:04", len("1504"): "1504", len("15"): "15"}
	timeLayouts   = map[int]string{
		len("15:04:05"): "15:04:05", len("150405"): "150405", len("15:04"): "15:04", len("1504"): "1504",
	}
)

// parseTimestamp reads an ISO 8601 date and time with an explicit zone: RFC 3339, and beyond it the forms without
// seconds (10:00Z), with offsets of the form +0200 and +02, with a comma before the fraction, and the basic format
// (20240501T100000Z). T and Z may be lower case. Digits of the fraction beyond the ninth are dropped.
//
// A second of 60 is accepted at 23:59:60 UTC, where leap seconds occur, and means 00:00:00 of the next day, as in
// PostgreSQL. Not accepted are a space instead of the T, hour 24, week and ordinal dates, and fractions of minutes.
//
// The result is in UTC. wrong is the error text, "" for a valid timestamp.
func parseTimestamp(s string) (t time.Time, wrong string) {
	at := max(0, strings.IndexAny(s, "Tt"))
	date, clock := s[:at], s[at:] // clock begins with the T
	zone := ""
	if i := strings.IndexAny(clock, "Zz+-"); i >= 0 {
		clock, zone = clock[:i], clock[i:]
	}
	end := strings.IndexAny(clock, ".,") // of what the layout describes: time.Parse accepts a fraction by itself
	if end < 0 {
		end = len(clock)
	}
	dateLayout, timeLayout := dateLayouts[at], timeLayouts[end-1]
	if dateLayout == "" || timeLayout == "" {
		return time.Time{}, wantTimestamp
	}
	leap := end >= len("T150405") && clock[end-2:end] == "60"
	if leap {
		clock = clock[:end-2] + "59" + clock[end:]
	}
	t, err := time.Parse(dateLayout+"T"+timeLayout, date+"T"+clock[1:])
	var refused *time.ParseError
	outOfRange := errors.As(err, &refused) && strings.HasSuffix(refused.Message, "out of range")
	if err != nil && !outOfRange {
		return time.Time{}, wantTimestamp
	}
	offset, ok := parseOffset(zone) // a wrong zone is reported before a date out of range
	if !ok {
		return time.Time{}, wantZone
	}
	year := t.Year()
	if t = t.Add(-offset); leap {
		t = t.Add(time.Second)
	}
	// A leap second ends at 00:00:00 UTC.
	if outOfRange || year < 1 || t.Year() < 1 || t.Year() > 9999 || leap && (t.Hour() != 0 || t.Minute() != 0) {
		return time.Time{}, wantReal
	}
	return t, ""
}

// parseOffset reads Z, +hh, +hhmm or +hh:mm. Local time minus the offset is UTC.
func parseOffset(zone string) (offset time.Duration, ok bool) {
	if zone == "Z" || zone == "z" {
		return 0, true
	}
	if zone == "" || zone[0] != '+' && zone[0] != '-' {
		return 0, false
	}
	layout := offsetLayouts[len(zone)-1]
	t, err := time.Parse(layout, zone[1:])
	if err != nil || layout == "" {
		return 0, false
	}
	offset = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	if zone[0] == '-' {
		offset = -offset
	}
	return offset, true
}
