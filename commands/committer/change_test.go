package committer_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	commands "novelgate/commands/request"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// edit returns an edit of the text, at a minute.
func (p partner) edit(key, comment, content string, minute int) *committer.Command {
	return committer.NewEditPost(p.Caller, key, comment, &commands.Edit{Edit: post.Edit{
		Content: &content, EditedAt: time.Date(2026, 1, 2, 4, minute, 0, 0, time.UTC),
	}, TimestampGiven: true})
}

func (p partner) move(key, comment, chapter string, minute int) *committer.Command {
	return committer.NewEditPost(p.Caller, key, comment, &commands.Edit{Edit: post.Edit{
		ChapterNumber: jsontext.Value(chapter), EditedAt: time.Date(2026, 1, 2, 4, minute, 0, 0, time.UTC),
	}, TimestampGiven: true})
}

func (p partner) withdraw(key, comment string) *committer.Command {
	return committer.NewWithdrawPost(p.Caller, key, comment)
}

func (p partner) report(key, comment, detail string) *committer.Command {
	return committer.NewReportPost(p.Caller, key, comment, &commands.Report{
		Report: post.Report{Reason: "spam", Detail: detail, Reports: 2},
	})
}

// TestChanges: changes of comments one after another, and in one batch with the comments.
func TestChanges(t *testing.T) {
	t.Parallel()
	p, other := newPartner(), newPartner()
	failed := func(err error) string { return "error: " + err.Error() }
	long := strings.Repeat("x", 300)
	for name, tc := range map[string]struct {
		when []*committer.Command
		then []string
		text string // of the comment c at the end; "" when it is gone
	}{
		"edit": {
			[]*committer.Command{p.post("c", "Title"), p.edit("e", "c", "new", 1)}, []string{"post", "changed"}, "new",
		},
		"edits in another order": {
			[]*committer.Command{p.post("c", "Title"), p.edit("e2", "c", "newest", 2), p.edit("e1", "c", "new", 1)},
			[]string{"post", "changed", "changed superseded"},
			"newest",
		},
		"edits at the same time": {
			[]*committer.Command{p.post("c", "Title"), p.edit("e1", "c", "new", 1), p.edit("e2", "c", "newer", 1)},
			[]string{"post", "changed", "changed"},
			"newer",
		},
		"text and chapter on their own": {
			[]*committer.Command{p.post("c", "Title"), p.move("m", "c", "3", 5), p.edit("e", "c", "new", 1)},
			[]string{"post", "changed", "changed"},
			"new",
		},
		"retried edit": {
			[]*committer.Command{
				p.post("c", "Title"), p.edit("e", "c", "new", 1), p.edit("f", "c", "newer", 2), p.edit("e", "c", "new", 1),
				p.edit("e", "c", "other", 1), p.edit("e", "d", "new", 1),
			},
			[]string{
				"post", "changed", "changed", "changed replayed", "changed replayed mismatch", failed(committer.ErrKeyMisused),
			},
			"newer",
		},
		"withdrawal": {
			[]*committer.Command{
				p.post("c", "Title"), p.edit("e", "c", long, 1), p.report("r", "c", "detail"), p.withdraw("w", "c"),
				p.withdraw("w2", "c"), p.edit("late", "c", "new", 3), p.edit("e", "c", long, 1), p.withdraw("w", "c"),
				p.report("s", "c", ""), p.post("c", "Title"), p.reply("d", "Title", "c"),
			},
			[]string{
				"post", "changed", "changed", "changed", "changed", failed(post.ErrWithdrawn), "changed replayed",
				"changed replayed",
				failed(post.ErrWithdrawn), "post replayed", "post threaded",
			},
			"",
		},
		"unknown comments, and those of others": {
			[]*committer.Command{
				p.post("c", "Title"), p.edit("e", "nothing", "x", 1), other.edit("e", "c", "x", 1), other.withdraw("w", "c"),
				other.report("r", "c", ""), p.withdraw("w", "nothing"),
			},
			append([]string{"post"}, slices.Repeat([]string{failed(post.ErrNotFound)}, 5)...),
			"content of c",
		},
	} {
		for _, mode := range []string{"one by one", "together"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r, _ := setup(t)
				var answers []answer
				if mode == "together" {
					answers = r.together(t, tc.when...)
				} else {
					for _, command := range tc.when {
						answers = append(answers, r.submit(t.Context(), command))
					}
				}
				wantAnswers(t, answers, tc.then...)
				if n := r.bisections(t); n != 0 {
					t.Errorf("%d batches were cut", n)
				}
				checkTruth(t, r.db)
				history := testdb.Must(eventlog.ReadStream(t.Context(), r.db, events.PostStream,
					events.PostID(p.IntegrationID, "c"), 0))(t)
				state := post.Fold(history)
				if tc.text == "" {
					for _, recorded := range history {
						if left := events.Personal(recorded.Event); left != nil {
							t.Errorf("%s still has %+v", recorded.Event.Type(), left)
						}
					}
					if !state.Withdrawn || state.Text != nil {
						t.Errorf("%+v", state)
					}
				} else if state.Text == nil || state.Text.Content != tc.text {
					t.Errorf("the text is %+v, want %q", state.Text, tc.text)
				}
			})
		}
	}
}

// TestChangesCount: changes use the limit of comments, in bulk that of lines.
func TestChangesCount(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.post("c", "Title"))
	p.PostsPerMinute = 3
	r.must(t, p.edit("e", "c", "x", 1))
	r.must(t, line(p.edit("f", "c", "x", 2)))
	r.must(t, p.withdraw("w", "c"))
	var limited *committer.RateLimitedError
	a := r.submit(t.Context(), p.report("r", "c", ""))
	if !errors.As(a.err, &limited) || limited.Operation != ratelimit.Posts {
		t.Errorf("%v", a)
	}
}

// TestEditOfABlockedAuthor is refused; a withdrawal is not.
func TestEditOfABlockedAuthor(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.postBy("troll", "c", "Title"))
	block(t, r.db, p, "troll")
	r.want(t, author.ErrBlocked, p.edit("e", "c", "x", 1))
	r.want(t, "changed", p.withdraw("w", "c"))
}

// TestReportByPostID: readers of other partners report what they see.
func TestReportByPostID(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	other := newPartner()
	r.must(t, p.post("c", "Title"))
	id := events.PostID(p.IntegrationID, "c")
	r.want(t, post.ErrNotFound, other.report("r", id.String(), "")) // no projection has followed: readers do not see it
	testdb.Exec(t, r.db, `INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, content_bytes,
			written_at, recorded_at, changed_at, log_index)
		SELECT e.stream_id, (e.data ->> 'threadId')::uuid, (e.data ->> 'novelId')::uuid, e.integration_id,
			gen_random_uuid(), 1, now(), now(), now(), e.log_index
		FROM events e WHERE e.stream_id = $1`, id)
	r.want(t, "changed", other.report("r", id.String(), "detail"))
	r.want(t, "changed replayed", other.report("r", id.String(), "detail"))
	r.want(t, post.ErrNotFound, other.edit("e", id.String(), "x", 1))
	testdb.Exec(t, r.db, `UPDATE posts SET hidden = true`)
	r.want(t, post.ErrNotFound, other.report("s", id.String(), ""))
	r.want(t, "changed", p.report("own", "c", "")) // its own partner may, still
	checkTruth(t, r.db)

	// The detail names the author of the comment, so it is erased with the author.
	personal := testdb.Value[string](t, r.db, `SELECT personal::text FROM events WHERE event_type = 'post.reported.v1' AND personal IS NOT NULL`)
	want := fmt.Sprintf(`{"integrationId":"%s","uuid":"user","detail":"detail"}`, p.IntegrationID)
	if diff := cmp.Diff(want, personal); diff != "" {
		t.Error(diff)
	}
	erased := testdb.Value[int](t, r.db, `SELECT erase_author_events($1, 'user', ARRAY[$2::uuid])`, p.IntegrationID, id)
	if erased != 2 {
		t.Errorf("%d events are erased: want the comment and the detail", erased)
	}
	r.want(t, post.ErrErased, p.edit("after", "c", "x", 1))
}

// TestFloodOfReports: the reports of a comment are not read for an edit, and for a withdrawal each is read a few times,
// because the log is locked meanwhile.
func TestFloodOfReports(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.want(t, nil, p.post("c", "Title"))
	flood := make([]events.Recorded, 1000)
	for i := range flood {
		flood[i] = events.Recorded{
			StreamType: events.PostStream, StreamID: events.PostID(p.IntegrationID, "c"), StreamVersion: i + 2,
			ID: fmt.Sprint("r", i), Source: events.PostReportsSource(p.IntegrationID),
			Event: events.PostReported{
				IntegrationID: p.IntegrationID, Reason: "spam", Reports: 1,
				Report: &events.Report{IntegrationID: p.IntegrationID, ExternalUUID: "user", Detail: "detail"},
			},
		}
	}
	testdb.NoError(t, projections.Append(t.Context(), r.db, flood...))
	testdb.Exec(t, r.db, `ANALYZE`)
	sql := testdb.Must(os.ReadFile("read_comments.sql"))(t)
	plan := strings.Join(testdb.Values[string](t, r.db, `EXPLAIN (ANALYZE, TIMING off) `+string(sql),
		[]uuid.UUID{events.PostID(p.IntegrationID, "c")}, []string{p.AuthorKey}), "\n")
	if regexp.MustCompile(`Rows Removed by Filter: \d{3}`).MatchString(plan) {
		t.Errorf("all reports are read:\n%s", plan)
	}
	r.want(t, "changed", p.withdraw("w", "c"))
	testdb.Exec(t, r.db, `SELECT pg_stat_force_next_flush()`)
	testdb.Eventually(t, "the statistics of the withdrawal", func() bool {
		return testdb.Value[int](t, r.db, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'events'`) > len(flood)
	})
	read := testdb.Value[int](t, r.db, `SELECT idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'events'`)
	if read > 20*len(flood) {
		t.Errorf("%d events are read to erase %d", read, len(flood))
	}
}
