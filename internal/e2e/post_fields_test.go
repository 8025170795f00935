package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestPostFieldsAtTheirBounds(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	known := Unique("Bounds")
	p.Upsert(t, Key(), Fields{"novel": known}).WantNovel(t, 201)
	var missing struct{} // marks a member to leave out
	for name, test := range map[string]struct {
		field string
		value any
		valid bool
	}{
		"uuid missing":                {"uuid", missing, false},
		"uuid null":                   {"uuid", nil, false},
		"uuid empty":                  {"uuid", "", false},
		"uuid one character":          {"uuid", "u", true},
		"uuid at most":                {"uuid", strings.Repeat("u", 255), true},
		"uuid too long":               {"uuid", strings.Repeat("u", 256), false},
		"uuid at most, astral":        {"uuid", strings.Repeat(astral, 255), true},
		"uuid too long, astral":       {"uuid", strings.Repeat(astral, 256), false},
		"uuid number":                 {"uuid", 42, false},
		"username missing":            {"username", missing, false},
		"username null":               {"username", nil, false},
		"username empty":              {"username", "", false},
		"username of white space":     {"username", " \u3000\n", false},
		"username one character":      {"username", "u", true},
		"username at most":            {"username", strings.Repeat("u", 50), true},
		"username too long":           {"username", strings.Repeat("u", 51), false},
		"username at most, astral":    {"username", strings.Repeat(astral, 50), true},
		"username too long, astral":   {"username", strings.Repeat(astral, 51), false},
		"username boolean":            {"username", true, false},
		"novel missing":               {"novel", missing, false},
		"novel null":                  {"novel", nil, false},
		"novel empty":                 {"novel", "", false},
		"novel of white space":        {"novel", "\u2003\t", false},
		"novel too long":              {"novel", strings.Repeat("n", 301), false},
		"novel too long, astral":      {"novel", strings.Repeat(astral, 301), false},
		"novel array":                 {"novel", []string{known}, false},
		"content missing":             {"content", missing, false},
		"content null":                {"content", nil, false},
		"content empty":               {"content", "", false},
		"content of white space":      {"content", " \n\t\u00a0\u3000", false},
		"content one character":       {"content", "x", true},
		"content one astral":          {"content", astral, true},
		"content at most":             {"content", strings.Repeat("c", 20_000), true},
		"content too long":            {"content", strings.Repeat("c", 20_001), false},
		"content object":              {"content", map[string]any{"text": "x"}, false},
		"content number":              {"content", 1, false},
		"chapterNumber missing":       {"chapterNumber", missing, true},
		"chapterNumber null":          {"chapterNumber", nil, true},
		"chapterNumber zero":          {"chapterNumber", 0, true},
		"chapterNumber decimal zero":  {"chapterNumber", json.Number("0.0"), true},
		"chapterNumber minus zero":    {"chapterNumber", json.Number("-0"), true},
		"chapterNumber decimal":       {"chapterNumber", 12.5, true},
		"chapterNumber at most":       {"chapterNumber", 1_000_000, true},
		"chapterNumber exponent":      {"chapterNumber", json.Number("1e2"), true},
		"chapterNumber at most, 1E+6": {"chapterNumber", json.Number("1E+6"), true},
		"chapterNumber at most, .00":  {"chapterNumber", json.Number("1000000.00"), true},
		"chapterNumber small":         {"chapterNumber", json.Number("5e-3"), true},
		"chapterNumber too big":       {"chapterNumber", 1_000_001, false},
		"chapterNumber little too big": {
			"chapterNumber", json.Number("1000000.00000000000000000001"), false, // equal to the limit as a float64
		},
		"chapterNumber too big, 1e7":    {"chapterNumber", json.Number("1e7"), false},
		"chapterNumber huge exponent":   {"chapterNumber", json.Number("1e999999999"), false},
		"chapterNumber tiny exponent":   {"chapterNumber", json.Number("1e-999999999"), false},
		"chapterNumber negative":        {"chapterNumber", -1, false},
		"chapterNumber little negative": {"chapterNumber", json.Number("-0.0000000001"), false},
		"chapterNumber string":          {"chapterNumber", "5", false},
		"chapterNumber boolean":         {"chapterNumber", true, false},
		"chapterNumber array":           {"chapterNumber", []int{1}, false},
		"timestamp missing":             {"timestamp", missing, true},
		"timestamp null":                {"timestamp", nil, true},
		"timestamp empty":               {"timestamp", "", false},
		"timestamp number":              {"timestamp", 1_700_000_000, false},
		"parent_uuid missing":           {"parent_uuid", missing, true},
		"parent_uuid null":              {"parent_uuid", nil, true},
		"parent_uuid empty":             {"parent_uuid", "", true},
		"parent_uuid unknown":           {"parent_uuid", "nobody", true},
		"parent_uuid not ASCII":         {"parent_uuid", "ключ " + astral, true},
		"parent_uuid very long":         {"parent_uuid", strings.Repeat("p", 10_000), true},
		"parent_uuid number":            {"parent_uuid", 1, false},
		"parent_uuid boolean":           {"parent_uuid", false, false},
		"parent_uuid array":             {"parent_uuid", []string{"x"}, false},
		"parent_uuid object":            {"parent_uuid", map[string]any{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := Comment(known).With(Fields{test.field: test.value})
			if test.value == missing {
				delete(fields, test.field)
			}
			response := p.Import(t, Key(), fields)
			if test.valid {
				response.WantPost(t, 201)
				return
			}
			response.WantInvalid(t, test.field)
		})
	}
}

func TestTimestampNeedsAnExplicitZone(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	known := Unique("Timestamps")
	p.Upsert(t, Key(), Fields{"novel": known}).WantNovel(t, 201)
	for timestamp, valid := range map[string]bool{ // commands/request tests ISO 8601 in full
		"2024-02-29T12:30:45Z":          true,
		"2024-02-29T12:30:45.5-09:30":   true,
		"2024-02-29T12:30+01":           true,
		"20240229T123045+0100":          true,
		"2024-02-29T12:30:45":           false,
		"2024-02-29Z":                   false,
		"2023-02-29T12:30:45Z":          false,
		"2024-02-29T12:30:45+24:00":     false,
		"Thu, 29 Feb 2024 12:30:45 GMT": false,
		"1709209845":                    false,
		"2024-02-29T12:30:45Z ":         false,
	} {
		t.Run(timestamp, func(t *testing.T) {
			t.Parallel()
			request := p.Request(PostsPath, Key(),
				Comment(known).With(Fields{"timestamp": timestamp}).JSON(t))
			request.Beyond = true // the description recommends RFC 3339, the service takes ISO 8601
			response := p.Service.Send(t, request)
			if valid {
				response.WantPost(t, 201)
				return
			}
			response.WantInvalid(t, "timestamp")
		})
	}
}

func TestTimestampAtMostFiveMinutesAhead(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	known := Unique("Future")
	p.Upsert(t, Key(), Fields{"novel": known}).WantNovel(t, 201)
	send := func(ahead time.Duration, zone *time.Location) Response {
		timestamp := time.Now().Add(ahead).In(zone).Format(time.RFC3339Nano)
		return p.Import(t, Key(), Comment(known).With(Fields{"timestamp": timestamp}))
	}
	// The request arrives after its timestamp was made, so exactly five minutes have become a little less.
	send(5*time.Minute, time.UTC).WantPost(t, 201)
	send(5*time.Minute, time.FixedZone("", 14*3600)).WantPost(t, 201)
	send(-48*time.Hour, time.FixedZone("", -12*3600)).WantPost(t, 201)
	// Far enough over the limit that a slow request does not bring it back under it.
	send(5*time.Minute+30*time.Second, time.UTC).WantInvalid(t, "timestamp")
	send(5*time.Minute+30*time.Second, time.FixedZone("", -11*3600)).WantInvalid(t, "timestamp")
	send(365*24*time.Hour, time.UTC).WantInvalid(t, "timestamp")
}
