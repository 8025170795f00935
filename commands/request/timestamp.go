package request

import (
	"regexp"
	"strings"
	"time"
)

const (
	wantTimestamp = "must be ISO 8601 with date, time and time zone, such as 2024-05-01T10:00:00Z or " +
		"2024-05-01T12:00:00.123+02:00"
	wantZone = "must have an explicit time zone: Z, or an offset such as +02:00"
	wantReal = "must be a moment that exists, in the years 0001 to 9999"
)

// The extended and the basic format of ISO 8601, and its offsets.
var (
	isoExtended = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(.*)$`)
	isoBasic    = regexp.MustCompile(`^(\d{4})(\d\d)(\d\d)[Tt](\d\d)(\d\d)(?:(\d\d)(?:[.,](\d+))?)?(.*)$`)
	isoOffset   = regexp.MustCompile(`^([+-](?:[01]\d|2[0-3]))(?::?([0-5]\d))?$`)
)

// parseTimestamp reads an ISO 8601 date and time with an explicit zone: RFC 3339, and beyond it the forms without
// seconds (10:00Z), with offsets of the form +0200 and +02, with a comma before the fraction, and the basic format
// (20240501T100000Z). T and Z may be lower case. Digits of the fraction beyond the ninth are dropped.
//
// 24:00 is the midnight at the end of the day. Not accepted are a space instead of the T, leap seconds, week and
// ordinal dates, and fractions of minutes.
//
// The result is in UTC. wrong is the error text, "" for a valid timestamp.
func parseTimestamp(s string) (t time.Time, wrong string) {
	parts := isoExtended.FindStringSubmatch(s)
	if parts == nil {
		parts = isoBasic.FindStringSubmatch(s)
	}
	if parts == nil {
		return time.Time{}, wantTimestamp
	}
	second, fraction, zone := parts[6], parts[7], parts[8]
	if zone != "Z" && zone != "z" { // a wrong zone is reported before a date out of range
		offset := isoOffset.FindStringSubmatch(zone)
		if offset == nil {
			return time.Time{}, wantZone
		}
		zone = offset[1] + ":" + (offset[2] + "00")[:2]
	}
	hour, endOfDay := parts[4], time.Duration(0)
	if hour == "24" && strings.Trim(parts[5]+second+fraction, "0") == "" {
		hour, endOfDay = "00", 24*time.Hour
	}
	t, err := time.Parse(time.RFC3339, parts[1]+"-"+parts[2]+"-"+parts[3]+"T"+hour+":"+parts[5]+":"+
		(second + "00")[:2]+"."+fraction+"0"+strings.ToUpper(zone))
	t = t.Add(endOfDay)
	if err != nil || t.Year() < 1 || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		return time.Time{}, wantReal
	}
	return t.UTC(), ""
}
