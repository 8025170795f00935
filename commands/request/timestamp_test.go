package request_test

import (
	"strings"
	"testing"
	"time"

	"novelgate/commands/request"
)

func TestTimestamp(t *testing.T) {
	t.Parallel()
	const refused = ""
	for in, want := range map[string]string{
		"2024-05-01T10:00:00Z":                "2024-05-01T10:00:00Z",
		"2024-05-01T10:00Z":                   "2024-05-01T10:00:00Z",
		"2024-05-01t10:00:00z":                "2024-05-01T10:00:00Z",
		"2024-05-01T10:00:00+02:00":           "2024-05-01T08:00:00Z",
		"2024-05-01T10:00:00+0200":            "2024-05-01T08:00:00Z",
		"2024-05-01T10:00:00+02":              "2024-05-01T08:00:00Z",
		"2024-05-01T03:00:00-05:30":           "2024-05-01T08:30:00Z",
		"2024-05-01T10:00:00-00:00":           "2024-05-01T10:00:00Z",
		"2024-05-01T23:59:59+14:00":           "2024-05-01T09:59:59Z",
		"2024-05-01T10:00:00+23:59":           "2024-04-30T10:01:00Z",
		"2024-05-01T09:00:00.5Z":              "2024-05-01T09:00:00.5Z",
		"2024-05-01T09:00:00,123456Z":         "2024-05-01T09:00:00.123456Z",
		"2024-05-01T09:00:00.1234569Z":        "2024-05-01T09:00:00.123456Z",
		"2024-05-01T09:00:00.12345678901234Z": "2024-05-01T09:00:00.123456Z",
		"20240501T090000Z":                    "2024-05-01T09:00:00Z",
		"20240501T0900+0100":                  "2024-05-01T08:00:00Z",
		"20240501T090000.25Z":                 "2024-05-01T09:00:00.25Z",
		"2024-02-29T00:00:00Z":                "2024-02-29T00:00:00Z",
		"0001-01-01T00:00:00Z":                "0001-01-01T00:00:00Z",
		"1969-12-31T23:59:59.999999Z":         "1969-12-31T23:59:59.999999Z",
		"2024-05-01T10:05:00.123456789Z":      "2024-05-01T10:05:00.123456Z",
		"2024-05-01T12:05:00+02:00":           "2024-05-01T10:05:00Z",

		"2024-05-01T10:05:00.12345679Z":  refused,
		"2024-05-01T10:05:01Z":           refused,
		"9999-12-31T23:59:59Z":           refused,
		"2024-05-01":                     refused,
		"2024-05-01Z":                    refused,
		"2024-05-01T10:00:00":            refused,
		"2024-05-01T10:00:00 Z":          refused,
		"2024-05-01 10:00:00Z":           refused,
		" 2024-05-01T10:00:00Z":          refused,
		"2024-05-01T10Z":                 refused,
		"2024-05-01T10:00.5Z":            refused,
		"2024-05-01T10:00:00.Z":          refused,
		"2024-05-01T10:00:00.1.2Z":       refused,
		"2024-05-01T10:0000Z":            refused,
		"2024-05-01T1000:00Z":            refused,
		"2024-0501T10:00:00Z":            refused,
		"2024-5-1T10:00:00Z":             refused,
		"2024-02-30T10:00:00Z":           refused,
		"2023-02-29T10:00:00Z":           refused,
		"2024-00-01T10:00:00Z":           refused,
		"2024-13-01T10:00:00Z":           refused,
		"2024-05-00T10:00:00Z":           refused,
		"2024-05-01T24:00:00Z":           refused,
		"2024-05-01T10:60:00Z":           refused,
		"2024-04-01T10:00:60Z":           refused,
		"2016-12-31T23:59:60Z":           refused,
		"2016-12-31T23:59:61Z":           refused,
		"2024-05-01T10:00:00+24:00":      refused,
		"2024-05-01T10:00:00+02:60":      refused,
		"2024-05-01T10:00:00+2":          refused,
		"2024-05-01T10:00:00+02:0":       refused,
		"2024-05-01T10:00:00+":           refused,
		"2024-05-01T10:00:00ZZ":          refused,
		"2024-05-01T10:00:00Z+02:00":     refused,
		"2024-05-01T10:00:00 UTC":        refused,
		"2024-05-01T10:00:00[UTC]":       refused,
		"0000-01-01T00:00:00Z":           refused,
		"0000-12-31T23:59:59-01:00":      refused,
		"0001-01-01T00:00:00+01:00":      refused,
		"+2024-05-01T10:00:00Z":          refused,
		"-2024-05-01T10:00:00Z":          refused,
		"12024-05-01T10:00:00Z":          refused,
		"2024-W18-3T10:00:00Z":           refused,
		"2024-122T10:00:00Z":             refused,
		"2024-05-01T10:00:00\u221202:00": refused,
		"٢٠٢٤-05-01T10:00:00Z":           refused,
		"now":                            refused,
		"T":                              refused,
		"TZ":                             refused,
		"1714557600":                     refused,
		"Wed, 01 May 2024 10:00:00 GMT":  refused,
		strings.Repeat("2", 30_000):      refused,
	} {
		p, err := request.DecodePost([]byte(post(`"timestamp":"`+in+`"`)), received)
		if want == refused {
			if err == nil {
				t.Errorf("%.60q is accepted as %s", in, p.WrittenAt)
			} else if fields := refusal(t, err).Fields; len(fields) != 1 || fields[0].Field != "timestamp" {
				t.Errorf("%.60q: %v", in, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := p.WrittenAt.Format(time.RFC3339Nano); got != want || !p.TimestampGiven ||
			p.WrittenAt.Location() != time.UTC {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}
