package catalogue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report counts what became of a run.
type Report struct {
	Created, Updated, Canonical, Foreign int // novels that were not replays; of comments only Created is used
	Replayed                             int
	Mismatched                           int            // replays that differ from their original; there should be none
	Refused                              map[string]int // by code and field
	Replies                              int            // comments that found their parent
	Waits                                int            // answers that asked to come back later
	Took                                 time.Duration
}

// Sent returns how many commands were answered.
func (r *Report) Sent() int {
	sent := r.Created + r.Updated + r.Canonical + r.Foreign + r.Replayed
	for _, n := range r.Refused {
		sent += n
	}
	return sent
}

func (r *Report) add(a answer) {
	r.Waits += a.waits
	if a.mismatch {
		r.Mismatched++
	}
	if a.ParentPostID != nil {
		r.Replies++
	}
	switch {
	case !a.accepted():
		if r.Refused == nil {
			r.Refused = map[string]int{}
		}
		r.Refused[strings.TrimSpace(fmt.Sprintf("%d %s %s", a.status, a.Code, a.Field))]++
	case a.replayed:
		r.Replayed++
	case a.Created:
		r.Created++
	case a.Updated:
		r.Updated++
	case a.Canonical:
		r.Canonical++
	default:
		r.Foreign++
	}
}

func (r *Report) merge(other *Report) {
	r.Created += other.Created
	r.Updated += other.Updated
	r.Canonical += other.Canonical
	r.Foreign += other.Foreign
	r.Replayed += other.Replayed
	r.Mismatched += other.Mismatched
	r.Replies += other.Replies
	r.Waits += other.Waits
	for what, n := range other.Refused {
		if r.Refused == nil {
			r.Refused = map[string]int{}
		}
		r.Refused[what] += n
	}
}

// Text shows the report in one line, and one for each kind of refusal. Counts of zero are left out.
func (r *Report) Text(what string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d sent in %.1f s", what, r.Sent(), r.Took.Seconds())
	for _, count := range []struct {
		n    int
		name string
	}{
		{r.Created, "created"},
		{r.Updated, "updated"},
		{r.Canonical, "canonical"},
		{r.Foreign, "of another integration"},
		{r.Replayed, "replayed"},
		{r.Mismatched, "replayed WITH A MISMATCH"},
		{r.Replies, "below a parent"},
		{r.Waits, "waits as told"},
	} {
		if count.n > 0 {
			fmt.Fprintf(&text, ", %d %s", count.n, count.name)
		}
	}
	text.WriteByte('\n')
	for _, why := range slices.Sorted(maps.Keys(r.Refused)) {
		fmt.Fprintf(&text, "  %d refused: %s\n", r.Refused[why], why)
	}
	return text.String()
}
