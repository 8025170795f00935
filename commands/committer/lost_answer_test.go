package committer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

// TestLostAnswer cuts the connection around the transaction of a batch: the client is told exactly once that its
// command was carried out, and it was carried out once.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]action{"before": cutBefore, "carried out": cutAfter, "meanwhile": cutAtOnce} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, replica, url := outage(t, timeout(patience))
			p := newPartner()
			if warm := replica.submit(t.Context(), p.post("warm", "Known title")); warm.err != nil {
				t.Fatal(warm.err)
			}
			armed := false
			faults.set(func(r request) action {
				if armed && r.appends {
					armed = false
					return a
				}
				return forward
			})
			got := replica.togetherThen(t, func() { armed = true },
				p.novel("n", "New title", novel.Fields{}),
				p.novel("n", "New Title", novel.Fields{Author: ptr("other")}),
				p.novel("u", "New title", novel.Fields{Author: ptr("Somebody")}),
				p.novel("n", "Other title", novel.Fields{}),
				p.post("n", "New title"),
				p.reply("m", "New title", "n"),
				p.post("n", "Known title"),
				p.post("c", "Title that comes with a comment"),
			)
			want := []string{
				"created", "updated replayed mismatch", "updated", "error: the idempotency key was used for another title",
				"post", "post threaded", "post replayed mismatch", "post",
			}
			if diff := cmp.Diff(want, texts(got)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if armed {
				t.Error("no transaction was cut off")
			}
			log := checkTruth(t, direct(t, url))
			created := 0
			for _, recorded := range log {
				if _, ok := recorded.Event.(events.NovelCreated); ok {
					created++
				}
			}
			if used := replica.used(); used != created {
				t.Errorf("%d creations were charged for %d novels", used, created)
			}
		})
	}
}
