package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// storedLog is an event log of the test's own.
type storedLog struct {
	pool *pgxpool.Pool
}

func setupLog(t testing.TB) storedLog {
	t.Helper()
	pool := testdb.Pool(t, testdb.New(t))
	return storedLog{pool}
}

// append appends in one transaction.
func (l storedLog) append(t testing.TB, recorded ...events.Recorded) {
	t.Helper()
	testdb.NoError(t, l.tryAppend(t, recorded...))
}

func (l storedLog) tryAppend(t testing.TB, recorded ...events.Recorded) error {
	t.Helper()
	return appendOn(t.Context(), l.pool, recorded...)
}

// sender is a pool or a transaction.
type sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// appendOn appends under the lock of the log.
func appendOn(ctx context.Context, db sender, recorded ...events.Recorded) error {
	var batch pgx.Batch
	eventlog.Lock(&batch)
	return queueOn(ctx, db, &batch, recorded...)
}

// queueOn appends after the statements of a batch.
func queueOn(ctx context.Context, db sender, batch *pgx.Batch, recorded ...events.Recorded) error {
	if err := eventlog.Queue(batch, recorded); err != nil {
		return err
	}
	return db.SendBatch(ctx, batch).Close()
}

func (l storedLog) count(t testing.TB, table string) int {
	t.Helper()
	return testdb.Value[int](t, l.pool, `SELECT count(*) FROM `+table)
}

// approval is version n of a stream.
func approval(stream byte, version int) events.Recorded {
	key := fmt.Sprintf("key-%d-%d", stream, version)
	return events.Recorded{
		StreamType: events.NovelStream, StreamID: uuid.UUID{stream}, StreamVersion: version, ID: key, Source: "tests",
		Event: events.NovelApproved{Reason: key}, Metadata: events.Metadata{Actor: "staff:test", Correlation: key},
	}
}

// TestRecordedAtIncreases: each append is recorded later than the one before, although the clock was set back.
func TestRecordedAtIncreases(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	testdb.Exec(t, log.pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source,
		event_type, data, actor, batch_id, recorded_at)
		VALUES (0, 'novel', gen_random_uuid(), 1, 'k', 's', 'novel.approved.v1', '{}', 'a', gen_random_uuid(), now() + interval '1 hour')`)
	log.append(t, approval(1, 1), approval(1, 2))
	log.append(t, approval(2, 1))
	got := testdb.Values[int](t, log.pool,
		`SELECT extract(microseconds FROM recorded_at - min(recorded_at) OVER ())::integer FROM events ORDER BY log_index`)
	if diff := gocmp.Diff([]int{0, 1, 1, 2}, got); diff != "" {
		t.Errorf("microseconds after the first event (-want +got):\n%s", diff)
	}
}

func TestAppendStoresTheExactBytes(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	full := events.Recorded{
		StreamType: events.PostStream, StreamVersion: 1, ID: "ключ \"1\" \\ {a,b}", Source: events.PostsSource(uuid.UUID{9}),
		Event: events.PostImported{
			ChapterNumber: []byte("1.50"), WrittenAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
			Comment: &events.Comment{
				ExternalUUID: "NULL", Username: "{}", Content: "a\tb\n\"c\" \\u0000 \u2028 🎉 'quoted' {1,2}  two spaces",
			},
		},
		Salt: uuid.NullUUID{UUID: uuid.UUID{5}, Valid: true},
		Metadata: events.Metadata{
			Actor: events.IntegrationActor(uuid.UUID{9}), KeyID: uuid.UUID{7}, RequestID: `r"\`, Correlation: "c",
			Causation: "x", Fingerprint: events.Fingerprint{8}, TraceParent: "t",
		},
	}
	full.StreamID = events.PostID(uuid.UUID{9}, full.ID)
	erased := full
	erased.StreamID, erased.ID, erased.Salt = events.PostID(uuid.UUID{9}, "NULL"), "NULL", uuid.NullUUID{}
	erased.Metadata = events.Metadata{Actor: "staff:ada"}
	erased.Event = events.PostImported{}
	zero := erased // an id of zeros is a value: the source must keep it
	zero.ID, zero.Source = "zero", events.PostsSource(uuid.Nil)
	zero.StreamID = events.PostID(uuid.Nil, zero.ID)
	all := []events.Recorded{full, erased, zero}
	log.append(t, all...) // sets their batch

	type stored struct {
		Type, ID, Source, StreamType, Data, Metadata string
		Personal                                     *string
		Salt                                         uuid.NullUUID
	}
	for _, recorded := range all {
		var got stored
		err := log.pool.QueryRow(t.Context(), `SELECT event_type, event_id, event_source, stream_type, data::text, metadata::text, personal::text, salt
			FROM event_log WHERE stream_id = $1`, recorded.StreamID).
			Scan(&got.Type, &got.ID, &got.Source, &got.StreamType, &got.Data, &got.Metadata, &got.Personal, &got.Salt)
		if err != nil {
			t.Fatal(err)
		}
		encoded := testdb.Must(events.Encode(recorded.Event))(t)
		metadata := testdb.Must(events.EncodeMetadata(&recorded.Metadata))(t)
		want := stored{
			Type: "post.imported.v1", ID: recorded.ID, Source: recorded.Source, StreamType: "post",
			Data: string(encoded.Data), Metadata: string(metadata), Salt: recorded.Salt,
		}
		if encoded.Personal != nil {
			want.Personal = new(string(encoded.Personal))
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestIndexesFollowTheDecisions: indexes are dense over appends, in the order given, whatever else failed in between.
// Every append has its own batch: so an event that is appended again, after the log was set back, is told from the lost
// one.
func TestIndexesFollowTheDecisions(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	first := []events.Recorded{approval(9, 1), approval(3, 1), approval(9, 2)}
	log.append(t, first...)
	if err := log.tryAppend(t, approval(5, 1), approval(9, 2)); !eventlog.IsConflict(err) {
		t.Fatalf("a version that is taken: %v", err)
	}
	second := []events.Recorded{approval(1, 1), approval(3, 2)}
	log.append(t, second...)

	all := testdb.Must(eventlog.ReadFrom(t.Context(), log.pool, 0, 10))(t)
	decided := slices.Concat(first, second)
	if len(all) != len(decided) {
		t.Fatalf("%d events, want %d", len(all), len(decided))
	}
	for i := range all {
		if all[i].LogIndex != int64(i) || all[i].ID != decided[i].ID {
			t.Errorf("event %d is %s at %d, want %s", i, all[i].ID, all[i].LogIndex, decided[i].ID)
		}
	}
	if one, other := all[0].Metadata.Batch, all[3].Metadata.Batch; one == uuid.Nil || one == other ||
		one != all[2].Metadata.Batch || one != first[0].Metadata.Batch {
		t.Errorf("batches %s and %s", one, other)
	}
	before := testdb.Must(eventlog.End(t.Context(), log.pool))(t)
	testdb.Lose(t, log.pool, `log_index = 3`)
	log.append(t, second...)
	if after := testdb.Must(eventlog.End(t.Context(), log.pool))(t); after.Position != before.Position || after == before {
		t.Errorf("the end is %s, before it was %s", after, before)
	}
}

// TestAWriterWithoutTheLockIsRefused: it computes an index that another transaction has taken.
func TestAWriterWithoutTheLockIsRefused(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	holder := testdb.Begin(t, log.pool)
	testdb.NoError(t, appendOn(t.Context(), holder, approval(1, 1)))
	refused := make(chan error, 1)
	go func() { refused <- queueOn(t.Context(), log.pool, &pgx.Batch{}, approval(2, 1)) }()
	testdb.Eventually(t, "it waits for the index", func() bool {
		return testdb.Value[int](t, log.pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND wait_event = 'transactionid'`) == 1
	})
	testdb.NoError(t, holder.Commit(t.Context()))
	if err := <-refused; !eventlog.IsDuplicate(err) {
		t.Errorf("got %v, want a duplicate index", err)
	}
}

func TestConflictsStoreNothing(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	log.append(t, approval(1, 1), approval(2, 1))

	sameKey := approval(3, 1)
	sameKey.ID = approval(1, 1).ID
	sameVersion := approval(2, 1)
	sameVersion.ID = "another key"
	otherSource := approval(3, 1)
	otherSource.ID, otherSource.Source = approval(1, 1).ID, "elsewhere"

	for name, c := range map[string]struct {
		recorded events.Recorded
		conflict bool
	}{
		"event id and source are taken": {sameKey, true},
		"stream version is taken":       {sameVersion, true},
		"same id, another source":       {otherSource, false},
	} {
		before := log.count(t, "events")
		var batch pgx.Batch
		eventlog.Lock(&batch)
		batch.Queue(`INSERT INTO settings (name, value) VALUES ($1, 'before')`, name+" before")
		testdb.NoError(t, eventlog.Queue(&batch, []events.Recorded{approval(byte(100+before), 1), c.recorded}))
		batch.Queue(`INSERT INTO settings (name, value) VALUES ($1, 'after')`, name+" after")
		err := log.pool.SendBatch(t.Context(), &batch).Close()
		if eventlog.IsConflict(err) != c.conflict {
			t.Errorf("%s: error %v", name, err)
		}
		appended := log.count(t, "events") - before
		var others int
		if err := log.pool.QueryRow(t.Context(), `SELECT count(*) FROM settings WHERE starts_with(name, $1)`, name).Scan(
			&others); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 0, false: 2}[c.conflict]; appended != want || others != want {
			t.Errorf("%s: %d events and %d other rows were stored, want %d each", name, appended, others, want)
		}
	}
}

func TestLostAppendIsAnError(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	// The database drops a row, as ON CONFLICT DO NOTHING or another trigger would.
	testdb.Must(log.pool.Exec(t.Context(), `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN IF NEW.stream_version = 2 THEN RETURN NULL; END IF; RETURN NEW; END';
		CREATE TRIGGER swallow BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION swallow()`))(t)
	if err := log.tryAppend(t, approval(1, 1), approval(1, 2)); !errors.Is(err, eventlog.ErrLostAppend) {
		t.Errorf("got %v, want ErrLostAppend", err)
	}
}

func TestQueueRefusesWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	var batch pgx.Batch
	err := eventlog.Queue(&batch, []events.Recorded{{Event: events.NovelApproved{Reason: "\xff"}}})
	if err == nil || batch.Len() != 0 {
		t.Errorf("invalid UTF-8: %v, %d statements were queued", err, batch.Len())
	}
}

func TestErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	code := func(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }
	for name, c := range map[string]struct {
		err                         error
		conflict, unavailable, away bool
	}{
		"none":                 {nil, false, false, false},
		"unique violation":     {code("23505"), true, false, false},
		"deadlock":             {code("40P01"), true, false, false},
		"serialization":        {code("40001"), true, false, false},
		"lock time-out":        {code("55P03"), true, false, false},
		"check violation":      {code("23514"), false, false, false},
		"refused by the guard": {code("23001"), false, false, false},
		"syntax error":         {code("42601"), false, false, false},
		"shutting down":        {code("57P01"), false, true, true},
		"starting up":          {code("57P03"), false, true, true},
		"too many connections": {code("53300"), false, true, true},
		"disk full":            {code("53100"), false, true, true},
		"input/output":         {code("58030"), false, true, true},
		"read-only":            {code("25006"), false, true, true},
		"something else":       {errors.New("marshal: year outside of range"), false, true, false},
		"no row":               {pgx.ErrNoRows, false, true, false},
		"connection is gone":   {fmt.Errorf("wrapped: %w", io.ErrUnexpectedEOF), false, true, true},
		"connection is reset": {
			fmt.Errorf("wrapped: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}), false, true, true,
		},
		"a file":               {&fs.PathError{Op: "open", Path: "f", Err: syscall.ENOSPC}, false, true, false},
		"connection is closed": {fmt.Errorf("wrapped: %w", net.ErrClosed), false, true, true},
		"no connection":        {fmt.Errorf("wrapped: %w", &pgconn.ConnectError{}), false, true, true},
		"time is up":           {fmt.Errorf("wrapped: %w", context.DeadlineExceeded), false, true, true},
		"connection exception": {code("08006"), false, true, true},
	} {
		if got := eventlog.IsConflict(c.err); got != c.conflict {
			t.Errorf("%s: conflict %t", name, got)
		}
		if got := eventlog.IsUnavailable(c.err); got != c.unavailable {
			t.Errorf("%s: unavailable %t", name, got)
		}
		if got := eventlog.IsAway(c.err); got != c.away {
			t.Errorf("%s: away %t", name, got)
		}
	}
}
