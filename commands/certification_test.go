package commands_test

import (
	"strings"
	"testing"
	"time"

	"novelgate/commands"
)

// TestJudge: only a retry of the same command with the same key, in time, survives a fault.
func TestJudge(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const body, other = "body", "other"
	// received returns a request with the key "k", ms milliseconds after noon.
	received := func(ms int, change func(r *commands.Received)) commands.Received {
		at := noon.Add(time.Duration(ms) * time.Millisecond)
		r := commands.Received{Operation: "posts", Key: "k", BodyHash: []byte(body), At: at, AnsweredAt: &at, Status: 201}
		if change != nil {
			change(&r)
		}
		return r
	}
	with := func(fault string, status int) func(r *commands.Received) {
		return func(r *commands.Received) {
			r.Status = status
			r.SetFault(fault)
		}
	}
	first := func(fault string, status int) commands.Received { return received(0, with(fault, status)) }
	key := func(name string) func(r *commands.Received) { return func(r *commands.Received) { r.Key = name } }
	status := func(code int) func(r *commands.Received) { return func(r *commands.Received) { r.Status = code } }
	late := int(commands.LateTolerance / time.Millisecond)
	for name, tc := range map[string]struct {
		fault    string
		requests []commands.Received
		result   string
		reason   string // part of it
	}{
		"nothing":       {"slow", nil, "not_tried", ""},
		"another fault": {"slow", []commands.Received{first("unavailable", 503)}, "not_tried", ""},
		"503 repeated": {
			"unavailable", []commands.Received{first("unavailable", 503), received(2000, nil)}, "survived", "",
		},
		"503 repeated by a clock that is not exact": {
			"unavailable", []commands.Received{first("unavailable", 503), received(1950, nil)}, "survived", "",
		},
		"503 repeated at once": {
			"unavailable",
			[]commands.Received{first("unavailable", 503), received(300, nil)},
			"not_survived",
			"after 300ms; Retry-After was 2s",
		},
		"503 repeated late": {
			"unavailable",
			[]commands.Received{first("unavailable", 503), received(late+3000, nil)},
			"not_survived",
			"only after 5m3s",
		},
		"503 given up": {
			"unavailable", []commands.Received{first("unavailable", 503)}, "not_survived", "was not sent again",
		},
		"503 under a new key": {
			"unavailable",
			[]commands.Received{first("unavailable", 503), received(2500, key("new"))},
			"not_survived",
			`with another key, "new"`,
		},
		"an older comment with the same body is repeated": {
			"unavailable",
			[]commands.Received{
				received(-9, key("old")), first("unavailable", 503), received(50, key("old")), received(2500, nil),
			},
			"survived", "",
		},
		"the same comment another day": {
			"unavailable",
			[]commands.Received{first("unavailable", 503), received(2500, nil), received(late+1, key("new"))},
			"survived", "",
		},
		"the key of another operation": {
			"unavailable",
			[]commands.Received{
				first("unavailable", 503), received(2500, func(r *commands.Received) { r.Operation = "novels" }),
			},
			"not_survived", "was not sent again",
		},
		"another body": {
			"unavailable",
			[]commands.Received{
				first("unavailable", 503), received(2500, func(r *commands.Received) { r.BodyHash = []byte(other) }),
			},
			"not_survived", "another body",
		},
		"refused": {
			"unavailable",
			[]commands.Received{first("unavailable", 503), received(2500, status(400))},
			"not_survived",
			"answered with 400",
		},
		"a limit, and then an answer": {
			"unavailable",
			[]commands.Received{first("unavailable", 503), received(2500, status(429)), received(3500, nil)},
			"survived", "",
		},
		"unanswered": {
			"lost_response",
			[]commands.Received{first("lost_response", 0), received(9, status(0))},
			"not_survived",
			"has not been answered",
		},
		"429 repeated early": {
			"rate_limited",
			[]commands.Received{first("rate_limited", 429), received(2500, nil)},
			"not_survived",
			"Retry-After was 3s",
		},
		"429 repeated": {
			"rate_limited", []commands.Received{first("rate_limited", 429), received(3100, nil)}, "survived", "",
		},
		"lost and repeated at once": {
			"lost_response", []commands.Received{first("lost_response", 0), received(5, nil)}, "survived", "",
		},
		"slow and waited": {"slow", []commands.Received{first("slow", 201)}, "survived", "waited"},
		"slow and waited, and again another day": {
			"slow", []commands.Received{first("slow", 201), received(late+9, nil)}, "survived", "waited",
		},
		"slow and refused": {
			"slow", []commands.Received{first("slow", 400)}, "not_survived", "refused with 400",
		},
		"slow and left": {
			"slow", []commands.Received{first("slow", 0), received(4000, nil)}, "survived", "was sent again",
		},
		"slow and given up": {
			"slow", []commands.Received{first("slow", 0)}, "not_survived", "was not sent again",
		},
		"the newest counts": {
			"lost_response",
			[]commands.Received{
				first("lost_response", 0), received(5, nil),
				received(10, func(r *commands.Received) { with("lost_response", 0)(r); r.Key = "l"; r.BodyHash = []byte(other) }),
			},
			"not_survived", "was not sent again",
		},
	} {
		result, reason := commands.Judge(tc.fault, tc.requests)
		if result != tc.result || !strings.Contains(reason, tc.reason) || reason == "" {
			t.Errorf("%s: %s, %q; want %s, %q", name, result, reason, tc.result, tc.reason)
		}
	}
}
