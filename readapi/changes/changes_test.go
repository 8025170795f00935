package changes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/projections"
	"novelgate/readapi/changes"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// acme and other are two partners.
var acme, other = uuid.UUID{1, 6: 0x70, 8: 0x80}, uuid.UUID{2, 6: 0x70, 8: 0x80}

// authenticate accepts keys that are the identifier of an integration.
func authenticate(_ context.Context, key string) (*auth.Integration, error) {
	return &auth.Integration{IntegrationID: uuid.MustParse(key), Enabled: true}, nil
}

// desk is the feed with its own database, over HTTP.
type desk struct {
	url   string
	api   *changes.API
	pool  *pgxpool.Pool
	staff *staff.Staff
	wake  *eventlog.Wake
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return newDeskOn(t, testdb.New(t))
}

// newDeskOn returns a desk on an empty database with the schema.
func newDeskOn(t *testing.T, url string) *desk {
	t.Helper()
	pool := testdb.Pool(t, url)
	d := &desk{
		pool: pool, staff: &staff.Staff{Pool: pool, Actor: "staff:ada", Now: time.Now}, wake: eventlog.NewWake(),
	}
	for name, id := range map[string]uuid.UUID{"acme": acme, "other": other} {
		d.append(t, events.Recorded{
			StreamType: events.IntegrationStream, StreamID: id, StreamVersion: 1, ID: name, Source: "staff",
			Event: events.IntegrationRegistered{Name: name, RegisteredAt: time.Unix(0, 0)},
		})
	}
	runner, err := projections.NewRunner(projections.Config{
		Pool: pool, Wake: d.wake, Logger: slog.New(slog.DiscardHandler),
		Projections: []projections.Projection{projections.Changes{}, projections.Posts{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = runner.Run(ctx) })
	t.Cleanup(func() { stop(); ended.Wait() })

	router := mux.NewRouter()
	kit := &web.Kit{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Timeout: time.Minute}
	d.api = &changes.API{
		Kit: kit, Feed: &changes.Feed{DB: pool}, Partners: auth.NewPartners(kit, authenticate),
		Draining: func() bool { return false },
	}
	d.api.Register(router)
	server := httptest.NewServer(kit.Handler(router, nil))
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// append appends events of partners, and staff's.
func (d *desk) append(t testing.TB, recorded ...events.Recorded) {
	t.Helper()
	if err := projections.Append(context.Background(), d.pool, recorded...); err != nil {
		t.Fatal(err)
	}
	d.wake.Signal()
}

func (d *desk) caughtUp(t testing.TB) {
	t.Helper()
	testdb.Eventually(t, "the projections catch up", func() bool {
		d.wake.Signal()
		return testdb.Value[int](t, d.pool, `SELECT count(*) FROM projections
			WHERE position = (SELECT max(log_index) + 1 FROM events)`) == 2
	})
}

type change struct {
	ID, Type, Cursor string
	OccurredAt       time.Time
	Data             jsontext.Value
}

type page struct {
	Items      []change
	Cursor     string
	NextCursor *string
	Errors     []struct{ Field, Message string }
}

// get reads a page of a partner.
func (d *desk) get(t testing.TB, of uuid.UUID, query string) (status int, p page) {
	t.Helper()
	response := d.open(t, of, query, "application/json")
	defer response.Body.Close() //nolint:errcheck // it was read
	if err := json.UnmarshalRead(response.Body, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, p
}

func (d *desk) open(t testing.TB, of uuid.UUID, query, accept string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/api/integrations/changes?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+of.String())
	r.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// told returns the types and data of all changes of a partner, read in pages of two.
func (d *desk) told(t testing.TB, of uuid.UUID, query string) (told []string) {
	t.Helper()
	for cursor := ""; ; {
		status, p := d.get(t, of, query+"&limit=2&cursor="+cursor)
		if status != http.StatusOK {
			t.Fatalf("status %d: %+v", status, p)
		}
		for _, c := range p.Items {
			told = append(told, c.Type+" "+string(c.Data))
		}
		if p.NextCursor == nil {
			return told
		}
		cursor = *p.NextCursor
	}
}

func novelOf(integration uuid.UUID, title string) events.Recorded {
	return events.Recorded{
		StreamType: events.NovelStream, StreamID: events.NovelID(title), StreamVersion: 1, ID: "novel " + title,
		Source: events.NovelsSource(integration), Event: events.NovelCreated{
			Title: title, Slug: title, Author: "Unknown", OwnerID: &integration, State: "pending",
		},
	}
}

func commentOf(integration uuid.UUID, key, title, author string) events.Recorded {
	novel := events.NovelID(title)
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integration, key), StreamVersion: 1, ID: key,
		Source: events.PostsSource(integration),
		Event: events.PostImported{
			IntegrationID: integration, NovelID: novel, ThreadID: events.ThreadID(novel), WrittenAt: time.Unix(0, 0),
			Comment: &events.Comment{ExternalUUID: author, Username: "Secret name", Content: "Secret text"},
		},
	}
}

// TestWhatPartnersAreTold: each partner gets its own changes, in log order, and nothing of readers.
func TestWhatPartnersAreTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx, genji := t.Context(), events.NovelID("genji")
	thread, post := events.ThreadID(genji), events.PostID(acme, "evt-1")
	d.append(t, novelOf(acme, "genji"), commentOf(acme, "evt-1", "genji", "member-1"),
		commentOf(other, "evt-1", "genji", "member-2"), events.Recorded{
			StreamType: events.ThreadStream, StreamID: thread, StreamVersion: 1, ID: "t",
			Source: events.PostThreadSource(other), Event: events.ThreadOpened{NovelID: genji},
		})
	member := staff.AuthorName{IntegrationID: acme, ExternalUUID: "member-1"}
	for _, err := range []error{
		second(d.staff.RejectByID(ctx, genji, "late")),
		second(d.staff.ApproveByID(ctx, genji, "fine")),
		second(d.staff.HidePost(ctx, post, "insult")),
		second(d.staff.HidePost(ctx, events.PostID(other, "evt-1"), "spam")),
		second(d.staff.RestorePost(ctx, post, "misread")),
		second(d.staff.BlockAuthor(ctx, member, "spammer")),
		second(d.staff.PublishByID(ctx, genji, "")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d.caughtUp(t)
	novel := fmt.Sprintf(`"novelId":"%s","novel":"genji","slug":"genji"`, genji)
	comment := fmt.Sprintf(`"idempotencyKey":"evt-1","postId":"%s","threadId":"%s",%s`, post, thread, novel)
	author := fmt.Sprintf(`"authorId":"%s"`, testdb.AuthorID(acme, "member-1"))
	want := []string{
		"thread.opened {" + novel + `,"threadId":"` + thread.String() + `"}`,
		"novel.rejected {" + novel + `,"reason":"late"}`,
		"novel.approved {" + novel + `,"reason":"fine"}`,
		"comment.hidden {" + comment + `,"reason":"insult"}`,
		"comment.restored {" + comment + `,"reason":"misread"}`,
		"author.blocked {" + author + `,"uuid":"member-1","reason":"spammer"}`,
		"novel.published {" + novel + `,"reason":""}`,
	}
	if diff := cmp.Diff(want, d.told(t, acme, "")); diff != "" {
		t.Errorf("(-want +told)\n%s", diff)
	}
	if diff := cmp.Diff(want[1:3], d.told(t, acme, "types=novel.approved,novel.rejected")); diff != "" {
		t.Errorf("filtered (-want +told)\n%s", diff)
	}
	if told := d.told(t, other, ""); len(told) != 1 || !strings.Contains(told[0], "spam") {
		t.Errorf("the other partner is told %q", told)
	}

	// After an erasure no personal data is left, also in earlier changes.
	if _, err := d.staff.EraseAuthor(t.Context(), member, "asked for it"); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	want[5] = "author.blocked {" + author + `,"uuid":null,"reason":"spammer"}`
	want = append(want, "author.erased {"+author+`,"uuid":null,"reason":"asked for it"}`)
	if diff := cmp.Diff(want, d.told(t, acme, "")); diff != "" {
		t.Errorf("after the erasure (-want +told)\n%s", diff)
	}
	if held := testdb.FindWords(t, d.pool.Config().ConnString(), "member-1"); len(held) > 0 {
		t.Errorf("member-1 is still in %v", held)
	}
}

// TestEveryKindHasData: feed.sql has a case for each kind of change.
func TestEveryKindHasData(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.append(t, novelOf(acme, "genji"))
	d.caughtUp(t)
	for _, kind := range events.ChangeKinds() {
		of := uuid.Must(uuid.NewV7())
		testdb.Exec(t, d.pool, `INSERT INTO changes SELECT $1, log_index, $2 FROM events WHERE event_type = 'novel.created.v1'`,
			of, kind)
		if _, p := d.get(t, of, ""); len(p.Items) != 1 || p.Items[0].Type != kind || p.Items[0].Data.Kind() != '{' {
			t.Errorf("%s: %+v", kind, p)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestParameters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for query, field := range map[string]string{
		"types=novel.gone": "types", "types=": "types", "limit=0": "limit", "limit=1001": "limit", "cursor=x": "cursor",
		"follow=true": "follow", "type=x": "type",
	} {
		if status, p := d.get(t, acme, query); status != http.StatusBadRequest || p.Errors[0].Field != field {
			t.Errorf("%s: %d %+v", query, status, p)
		}
	}
	if status, p := d.get(t, acme, ""); status != http.StatusOK || len(p.Items) != 0 || p.Cursor != "" ||
		p.NextCursor != nil {
		t.Errorf("nothing yet: %d %+v", status, p)
	}
}

// TestNothingIsMissedOrRepeated follows the feed on breaking connections, while several writers append.
func TestNothingIsMissedOrRepeated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const writers, transactions = 4, 30
	for writer := range writers {
		d.append(t, novelOf([]uuid.UUID{acme, other}[writer%2], fmt.Sprint("novel ", writer)))
	}
	_, begin := d.get(t, acme, "cursor=now")
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			id := events.NovelID(fmt.Sprint("novel ", writer))
			for n := range transactions {
				err := eventlog.Under(context.Background(), d.pool, func(tx pgx.Tx) error {
					var batch pgx.Batch
					if err := eventlog.Queue(&batch, []events.Recorded{{
						StreamType: events.NovelStream, StreamID: id, StreamVersion: 2 + n, ID: fmt.Sprint(writer, "/", n),
						Source: "staff/novels", Event: events.NovelApproved{Reason: fmt.Sprint(writer, "/", n)},
					}}); err != nil {
						return err
					}
					err := tx.SendBatch(context.Background(), &batch).Close()
					time.Sleep(rand.N(4 * time.Millisecond))
					return err
				})
				if err != nil {
					t.Error(err)
				}
				d.wake.Signal()
			}
		})
	}
	const total = writers / 2 * transactions
	var got []string
	cursor := begin.Cursor
	for len(got) < total {
		response := d.open(t, acme, "follow=true&cursor="+cursor, web.LineMediaType)
		lines := bufio.NewScanner(response.Body)
		for left := rand.IntN(20); left >= 0 && len(got) < total && lines.Scan(); left-- {
			var c change
			if len(lines.Bytes()) == 0 {
				continue
			}
			if err := json.Unmarshal(lines.Bytes(), &c, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			got, cursor = append(got, c.ID), c.Cursor
		}
		response.Body.Close() //nolint:errcheck // cut off
	}
	writing.Wait()
	d.caughtUp(t)
	var want []string
	response := d.open(t, acme, "cursor="+begin.Cursor, web.LineMediaType)
	text, err := io.ReadAll(response.Body)
	response.Body.Close() //nolint:errcheck // read
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var c change
		if err := json.Unmarshal([]byte(line), &c, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		want = append(want, c.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != total {
		t.Errorf("%d changes (-stream +followed)\n%s", len(want), diff)
	}
}

// TestALogThatIsSetBack: the cursor after a lost event is refused, also when another event has its place. That event
// has another id.
func TestALogThatIsSetBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	approved := func(version int, reason string) events.Recorded {
		return events.Recorded{
			StreamType: events.NovelStream, StreamID: events.NovelID("n"), StreamVersion: version, ID: reason, Source: "staff",
			Event: events.NovelApproved{Reason: reason},
		}
	}
	d.append(t, novelOf(acme, "n"))
	d.append(t, approved(2, "kept"))
	d.append(t, approved(3, "lost"))
	d.caughtUp(t)
	_, before := d.get(t, acme, "")
	kept, lost := before.Items[0], before.Items[1]
	wantRefused := func(when string) {
		t.Helper()
		if status, p := d.get(t, acme, "cursor="+lost.Cursor); status != http.StatusBadRequest ||
			p.Errors[0].Field != "cursor" {
			t.Errorf("%s: %d %+v", when, status, p)
		}
	}
	tx := testdb.Begin(t, d.pool)
	testdb.Lose(t, tx, `event_id = 'lost'`)
	testdb.Exec(t, tx, `DELETE FROM changes WHERE log_index > (SELECT max(log_index) FROM events)`)
	testdb.Exec(t, tx, `UPDATE projections SET position = (SELECT max(log_index) + 1 FROM events)`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRefused("the log ends before it")
	d.append(t, approved(3, "new"))
	d.caughtUp(t)
	wantRefused("another event has its place")
	_, after := d.get(t, acme, "cursor="+kept.Cursor)
	if len(after.Items) != 1 || !strings.Contains(string(after.Items[0].Data), "new") || after.Items[0].ID == lost.ID {
		t.Errorf("%+v instead of %+v", after.Items, lost)
	}
	if _, again := d.get(t, acme, ""); len(again.Items) != 2 || again.Items[0].ID != kept.ID ||
		again.Items[0].Cursor != kept.Cursor {
		t.Errorf("%+v, before: %+v", again.Items, kept)
	}
}
