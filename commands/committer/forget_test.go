package committer

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"novelgate/aggregates/post"
)

// TestForget: what a lane no longer trusts once it has heard something.
func TestForget(t *testing.T) {
	t.Parallel()
	comment, thread := uuid.UUID{1}, uuid.UUID{2}
	type left struct{ titles, comments bool }
	for name, tc := range map[string]struct {
		hear func(*memory)
		want left
	}{
		"nothing":       {func(m *memory) { m.hear(&news{settled: 8}) }, left{true, true}},
		"another title": {func(m *memory) { m.hear(&news{settled: 8, titles: []string{"b"}}) }, left{true, true}},
		"the title":     {func(m *memory) { m.hear(&news{settled: 8, titles: []string{"b", "a"}}) }, left{false, true}},
		"of too many": {
			func(m *memory) { m.hear(&news{settled: 8, titles: slices.Repeat([]string{"b"}, newsLimit)}) }, left{false, true},
		},
		"another table":     {func(m *memory) { m.hear(&news{settled: 8, epoch: epoch{table: 9}}) }, left{false, false}},
		"no new connection": {func(m *memory) { m.begin(3) }, left{true, true}},
		"a new connection":  {func(m *memory) { m.begin(4) }, left{false, false}},
	} {
		m := newMemory()
		m.begin(3)
		m.settled = 7
		m.titles.put("a", &title{})
		m.threads.put(comment, thread)
		tc.hear(m)
		title := state{trust: trust{memory: m}, recalled: []string{"a"}}
		parent := state{trust: trust{memory: m}, parents: map[ref]post.Parent{{}: {PostID: comment, ThreadID: thread}}}
		if got := (left{title.stillRemembered(), parent.stillRemembered()}); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
		if name == "a new connection" && m.settled != 0 {
			t.Errorf("it has heard of the transactions before %d, although there may be others by now", m.settled)
		}
	}
}
