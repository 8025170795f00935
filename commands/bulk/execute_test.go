package bulk_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/commands/committer"
	"novelgate/internal/testdb"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	outcomes := f.send(t, upsert("novel", "N", "S.")+comment("reply", `"parent"`, "c")+comment("parent", "", "c")+
		comment("parent", "", "c")+comment("parent", "", "another")+upsert("update", "N", "Another.")+
		comment("orphan", "missing", "c")+comment("bad", "", " ")+
		strings.Replace(upsert("unknown", "N", ""), `"body":{`, `"body":{"cover":1,`, 1))
	type short struct {
		Key, Code                                     string
		Created, Updated, Replayed, Mismatch, IsReply bool
	}
	var got []short
	for i, o := range outcomes {
		got = append(got, short{
			o.IdempotencyKey, o.code(), o.Created, o.Updated, o.Replayed, o.Mismatch, o.ParentPostID != nil,
		})
		if o.Line != i+1 {
			t.Errorf("outcome %d is of line %d", i+1, o.Line)
		}
	}
	want := []short{
		{Key: "novel", Code: "201", Created: true},
		{Key: "reply", Code: "201", Created: true, IsReply: true},
		{Key: "parent", Code: "201", Created: true},
		{Key: "parent", Code: "200", Replayed: true},
		{Key: "parent", Code: "200", Replayed: true, Mismatch: true},
		{Key: "update", Code: "200", Updated: true},
		{Key: "orphan", Code: "201", Created: true},
		{Key: "bad", Code: "invalid_request"},
		{Key: "unknown", Code: "200", Updated: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("outcomes (-want +got)\n%s", diff)
	}
	novel, reply, parent, bad := outcomes[0], outcomes[1], outcomes[2], outcomes[7]
	if *reply.ParentPostID != parent.PostID || reply.ThreadID != parent.ThreadID || parent.Operation != "posts" ||
		parent.URL != "https://novels.example/novels/n/discussion?post="+parent.PostID+"#post-"+parent.PostID {
		t.Errorf("reply %+v\nparent %+v", reply, parent)
	}
	if novel.Slug != "n" || novel.URL != "https://novels.example/novels/n" || uuid.Validate(novel.NovelID) != nil {
		t.Errorf("novel %+v", novel)
	}
	if bad.Status != 400 || bad.Problem.RequestID != "request/8" || bad.RetryAfter != 0 {
		t.Errorf("bad line %+v %+v", bad, bad.Problem)
	}
	if log := f.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log,
		`msg="command refused" requestId=request/8 integration=`+f.integration.IntegrationID.String()+
			` operation=posts status=400 code=invalid_request key=bad`) {
		t.Errorf("the log has\n%s", log)
	}
	for i, want := range map[int]string{1: "", 6: "parent_not_found parent_uuid", 8: "unknown_member cover"} {
		var got string
		for _, w := range outcomes[i].Warnings {
			got += w.Code + " " + w.Field
		}
		if got != want {
			t.Errorf("warnings of line %d: %q, want %q", i+1, got, want)
		}
	}
	lost := testdb.Values[string](t, f.pool, `SELECT event_id FROM events WHERE data ->> 'parentLost' = 'true'`)
	if !slices.Equal(lost, []string{"orphan"}) {
		t.Errorf("recorded with a lost parent: %q", lost)
	}
	recorded := testdb.Values[string](t, f.pool, `SELECT request_id FROM events WHERE event_id = 'parent' AND stream_type = 'post'`)
	if !slices.Equal(recorded, []string{"request/3"}) {
		t.Errorf("request ids on record: %q", recorded)
	}
}

// reply is a line of TestRepliesOfInterruptedRequests. Its key is unique, unless it repeats an earlier line.
type reply struct {
	key, parent string
	bad         bool
}

// drawReplies draws lines, some of which are replies to others, fail or repeat an earlier line.
func drawReplies(rt *rapid.T, prefix string) (lines []reply) {
	n := rapid.IntRange(1, 8).Draw(rt, "lines")
	key := func(k int) string { return fmt.Sprint(prefix, k) }
	for k := range n {
		l := reply{key: key(k)}
		switch rapid.SampledFrom([]string{"reply", "orphan", "repeated", "bad", "top-level"}).Draw(rt, "kind") {
		case "reply":
			l.parent = key(rapid.IntRange(0, n-1).Draw(rt, "parent"))
		case "orphan":
			l.parent = "missing"
		case "repeated":
			if k > 0 {
				l = lines[rapid.IntRange(0, k-1).Draw(rt, "line")]
			}
		case "bad":
			l.bad = true
		}
		lines = append(lines, l)
	}
	return lines
}

// expected returns the parents of the comments of lines. In a circle of replies, one is top-level.
func expected(lines []reply) (parents map[string]string, circles [][]string) {
	first := map[string]int{} // line of each comment
	for n, l := range lines {
		if _, again := first[l.key]; !again && !l.bad {
			first[l.key] = n
		}
	}
	parents = map[string]string{}
	for key, n := range first {
		parents[key] = ""
		if _, isStored := first[lines[n].parent]; isStored {
			parents[key] = lines[n].parent
		}
	}
	for key := range first {
		circle := []string{key}
		for at := parents[key]; at != "" && at != key && len(circle) <= len(first); at = parents[at] {
			circle = append(circle, at)
		}
		if last := circle[len(circle)-1]; parents[last] == key && key == slices.Min(circle) {
			circles = append(circles, circle)
		}
	}
	return parents, circles
}

// TestRepliesOfInterruptedRequests: commands are refused for a while, and the request is repeated until none is. Then
// each comment is under its parent.
func TestRepliesOfInterruptedRequests(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rapid.Check(t, func(rt *rapid.T) {
		prefix := uuid.NewString() + "-"
		lines := drawReplies(rt, prefix)
		var text strings.Builder
		for _, l := range lines {
			content := "c"
			if l.bad {
				content = " "
			}
			text.WriteString(comment(l.key, l.parent, content))
		}
		refusals := rapid.SliceOfN(rapid.Bool(), 0, 20).Draw(rt, "refusals")
		f.submit = func(context.Context, *committer.Command) (err error) {
			if len(refusals) > 0 {
				if refusals[0] {
					err = committer.ErrQueueFull
				}
				refusals = refusals[1:]
			}
			return err
		}
		for more, n := true, 0; more; n++ {
			if n > 40 {
				rt.Fatal("a line is refused for ever")
			}
			more = false
			for i, o := range f.send(t, text.String()) {
				isBad := lines[i].bad && o.code() == "invalid_request"
				isRefused := o.code() == "unavailable" && o.RetryAfter == 1
				if !isBad && !isRefused && o.Problem != nil {
					rt.Errorf("line %d: %+v", i+1, o.Problem)
				}
				more = more || isRefused
			}
		}
		want, circles := expected(lines)
		got := f.parents(t, prefix)
		for _, circle := range circles {
			broken := 0
			for _, key := range circle {
				if got[key] == "" {
					broken++
					delete(want, key)
					delete(got, key)
				}
			}
			if broken != 1 {
				rt.Errorf("%d comments of the circle %q are top-level", broken, circle)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("parents (-want +got)\n%s", diff)
		}
	})
}

// TestRepliesToFailedLines: a reply to a comment that is refused for good is stored top-level, and keeps its replies.
func TestRepliesToFailedLines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.send(t, comment("first", "", "c"))
	rejected := strings.Replace(comment("rejected", "", "c"), `"novel":"N"`, `"novel":"Unknown"`, 1)
	f.integration.CanCreateNovels = false
	outcomes := f.send(t, comment("second", "child", "c")+comment("child", "rejected", "c")+rejected)
	if diff := cmp.Diff([]string{"201", "201", "novel_not_found"}, codes(outcomes)); diff != "" {
		t.Fatalf("outcomes (-want +got)\n%s", diff)
	}
	want := map[string]string{"first": "", "child": "", "second": "child"}
	if diff := cmp.Diff(want, f.parents(t, "")); diff != "" {
		t.Errorf("parents (-want +got)\n%s", diff)
	}
}

// TestUpsertsKeepTheirOrder: the committer refuses some upserts for a while. When the request is repeated, the last
// upsert of each title wins all the same.
func TestUpsertsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const titles, versions = 5, 4
	f := setup(t)
	var lines strings.Builder
	for n := range titles * versions {
		lines.WriteString(upsert(fmt.Sprint(n), fmt.Sprint("Title ", n%titles), fmt.Sprintf("Version %d.", n/titles)))
	}
	calls := 0
	f.submit = func(context.Context, *committer.Command) error {
		if calls++; calls%7 == 3 && calls < 50 {
			return committer.ErrQueueFull
		}
		return nil
	}
	for slices.Contains(codes(f.send(t, lines.String())), "unavailable") {
	}
	synopses := testdb.Values[string](t, f.pool, `SELECT DISTINCT ON (stream_id) data->>'synopsis' FROM events
WHERE event_type = 'novel.updated.v1' ORDER BY stream_id, stream_version DESC`)
	if want := slices.Repeat([]string{fmt.Sprintf("Version %d.", versions-1)}, titles); !slices.Equal(synopses, want) {
		t.Errorf("synopses %q", synopses)
	}
}

// TestLimitOfLines: lines beyond the limit are refused one by one, and a reply with its parent.
func TestLimitOfLines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.integration.LinesPerMinute = 3
	outcomes := f.send(t, upsert("a", "N", "")+comment("b", "", "c")+comment("c", "d", "c")+comment("d", "c", "c")+
		comment("e", "d", "c")+comment("f", "", "c"))
	want := []string{"201", "201", "rate_limited", "rate_limited", "rate_limited", "201"}
	if diff := cmp.Diff(want, codes(outcomes)); diff != "" {
		t.Fatalf("outcomes (-want +got)\n%s", diff)
	}
	for _, o := range outcomes[2:5] {
		if o.Status != 429 || o.RetryAfter < 1 || o.RetryAfter > 62 || !o.Problem.Retryable {
			t.Errorf("%+v %+v", o, o.Problem)
		}
	}
}

// TestRevokedDuringARequest: lines after the revocation of the key, or of a capability, are refused.
func TestRevokedDuringARequest(t *testing.T) {
	t.Parallel()
	for want, revoke := range map[string]func(f *fixture){
		"unauthorized":        func(f *fixture) { f.revoked = true },
		"capability_disabled": func(f *fixture) { f.integration.CanImport = false },
	} {
		f := setup(t)
		var clock atomic.Int64 // each reading is a second after the one before
		f.api.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Add(1)) * time.Second) }
		commands := 0
		f.submit = func(context.Context, *committer.Command) error {
			if commands++; commands == 2 {
				f.set(func() { revoke(f) })
			}
			return nil
		}
		outcomes := f.send(t, comment("a", "", "c")+comment("b", "", "c")+comment("c", "", "c")+comment("d", "c", "c"))
		if diff := cmp.Diff([]string{"201", "201", want, want}, codes(outcomes)); diff != "" {
			t.Errorf("outcomes (-want +got)\n%s", diff)
		}
	}
}

// TestOutage: when many lines in a row cannot be executed, the rest is refused at once.
func TestOutage(t *testing.T) {
	t.Parallel()
	f := setup(t)
	calls := 0
	f.submit = func(context.Context, *committer.Command) error { calls++; return committer.ErrUnavailable }
	const lines = 1_000
	outcomes := f.send(t, strings.Repeat(comment("k", "", "c"), lines))
	if len(outcomes) != lines || slices.ContainsFunc(outcomes, func(o outcome) bool { return o.code() != "unavailable" }) {
		t.Errorf("%d outcomes", len(outcomes))
	}
	if calls != 256 {
		t.Errorf("%d commands were tried", calls)
	}
}

// TestShutdown: a process that shuts down executes no further lines.
func TestShutdown(t *testing.T) {
	t.Parallel()
	f := setup(t)
	calls := 0
	f.submit = func(context.Context, *committer.Command) error { calls++; return nil }
	f.api.Draining = func() bool { return calls == 2 }
	outcomes := f.send(t, comment("a", "", "c")+comment("b", "", "c")+comment("c", "", "c")+"bad\n")
	if diff := cmp.Diff([]string{"201", "201", "unavailable", "invalid_request"}, codes(outcomes)); diff != "" {
		t.Errorf("outcomes (-want +got)\n%s", diff)
	}
}

// TestStarvation: lines that get no outcome for long are unavailable. It is unknown whether they were executed.
func TestStarvation(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.api.Patience = 50 * time.Millisecond
	locked := testdb.Begin(t, f.pool)
	testdb.Exec(t, locked, `LOCK TABLE events`)
	const lines = 600 // more than may be under way
	outcomes := f.send(t, strings.Repeat(comment("a", "", "c"), lines))
	if len(outcomes) != lines || slices.ContainsFunc(outcomes, func(o outcome) bool { return o.code() != "unavailable" }) {
		t.Errorf("outcomes %q", codes(outcomes))
	}
	if err := locked.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOutcomesAreStreamed: the outcome of a line arrives before a later line is executed.
func TestOutcomesAreStreamed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	arrived := make(chan struct{})
	f.submit = func(_ context.Context, cmd *committer.Command) error {
		if cmd.Key == "third" {
			<-arrived
		}
		return nil
	}
	// An upsert waits for the one before, so its outcome is known.
	response := f.post(t.Context(), t, strings.NewReader(upsert("first", "N", "")+upsert("second", "N", "")+
		comment("third", "", "c")))
	lines := bufio.NewScanner(response.body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"first"`) {
		t.Errorf("%q, %v", lines.Text(), lines.Err())
	}
	close(arrived)
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// TestDisconnectedClient: a client that disconnects ends the execution, and its integration can send the next request.
func TestDisconnectedClient(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx, disconnect := context.WithCancel(t.Context())
	ended := make(chan struct{})
	f.submit = func(ctx context.Context, _ *committer.Command) error {
		select {
		case <-ctx.Done():
			close(ended)
		case <-time.After(time.Millisecond):
		}
		return committer.ErrKeyMisused
	}
	response := f.post(ctx, t, strings.NewReader(strings.Repeat(comment("k", "", "c"), 10_000)))
	if _, err := bufio.NewReader(response.body).ReadString('\n'); err != nil {
		t.Error(err)
	}
	disconnect()
	<-ended
	f.submit = func(context.Context, *committer.Command) error { return nil }
	testdb.Eventually(t, "the next request is accepted", func() bool {
		next := f.post(t.Context(), t, strings.NewReader(comment("next", "", "c")))
		return next.status == http.StatusOK
	})
}
