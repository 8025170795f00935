package request

import (
	"strings"
	"time"
)

const (
	wantTimestamp = "must be ISO 8601 with date, time and time zone, such as 2024-05-01T10:00:00Z or " +
		"2024-05-01T12:00:00.123+02:00"
	wantZone = "must have an explicit time zone: Z, or an offset such as +02:00"
	wantReal = "must be a moment that exists, in the years 0001 to 9999"
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
	date, rest, ok := cutAny(s, "Tt")
	if !ok {
		return time.Time{}, wantTimestamp
	}
	year, month, day, ok := parseDate(date)
	if !ok {
		return time.Time{}, wantTimestamp
	}
	clock, zone := rest, ""
	if i := strings.IndexAny(rest, "Zz+-"); i >= 0 {
		clock, zone = rest[:i], rest[i:]
	}
	hour, minute, second, nano, ok := parseClock(clock)
	if !ok {
		return time.Time{}, wantTimestamp
	}
	if zone == "" {
		return time.Time{}, wantZone
	}
	offset, ok := parseOffset(zone)
	if !ok {
		return time.Time{}, wantZone
	}

	midnight := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	// time.Date normalises 30 February to a day in March.
	if midnight.Day() != day || int(midnight.Month()) != month || hour > 23 || minute > 59 || second > 60 {
		return time.Time{}, wantReal
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nano, time.UTC).Add(-offset)
	if second == 60 && (t.Hour() != 0 || t.Minute() != 0) {
		return time.Time{}, wantReal
	}
	if year < 1 || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, wantReal
	}
	return t, ""
}

// parseDate reads YYYY-MM-DD or YYYYMMDD.
func parseDate(s string) (year, month, day int, ok bool) {
	if len(s) == 10 && s[4] == '-' && s[7] == '-' {
		s = s[:4] + s[5:7] + s[8:]
	}
	if len(s) != 8 || !isDigits(s) {
		return 0, 0, 0, false
	}
	return number(s[:4]), number(s[4:6]), number(s[6:]), true
}

// parseClock reads hh:mm, hh:mm:ss, hhmm or hhmmss, the forms with seconds also
// with a fraction.
func parseClock(s string) (hour, minute, second, nano int, ok bool) {
	s, fraction, hasFraction := cutAny(s, ".,")
	if hasFraction && (fraction == "" || !isDigits(fraction)) {
		return 0, 0, 0, 0, false
	}
	switch {
	case len(s) == 8 && s[2] == ':' && s[5] == ':':
		s = s[:2] + s[3:5] + s[6:]
	case len(s) == 5 && s[2] == ':':
		s = s[:2] + s[3:]
	}
	if !isDigits(s) {
		return 0, 0, 0, 0, false
	}
	switch {
	case len(s) == 6:
		return number(s[:2]), number(s[2:4]), number(s[4:]), nanoseconds(fraction), true
	case len(s) == 4 && !hasFraction:
		return number(s[:2]), number(s[2:]), 0, 0, true
	default:
		return 0, 0, 0, 0, false
	}
}

// parseOffset reads Z, +hh, +hhmm or +hh:mm. Local time minus the offset is UTC.
func parseOffset(s string) (offset time.Duration, ok bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	sign, s := s[0], s[1:]
	if len(s) == 5 && s[2] == ':' {
		s = s[:2] + s[3:]
	}
	if len(s) == 2 {
		s += "00"
	}
	if (sign != '+' && sign != '-') || len(s) != 4 || !isDigits(s) {
		return 0, false
	}
	hours, minutes := number(s[:2]), number(s[2:])
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if sign == '-' {
		offset = -offset
	}
	return offset, true
}

func nanoseconds(fraction string) int {
	if len(fraction) > 9 {
		fraction = fraction[:9]
	}
	n := number(fraction)
	for range 9 - len(fraction) {
		n *= 10
	}
	return n
}

// number reads up to nine digits.
func number(digits string) int {
	n := 0
	for _, c := range digits {
		n = n*10 + int(c-'0')
	}
	return n
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// cutAny cuts s at the first byte that is one of chars.
func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
