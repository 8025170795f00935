package staff_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func setup(t testing.TB) *staff.Staff {
	t.Helper()
	return &staff.Staff{Pool: testdb.Pool(t, testdb.New(t)), Actor: "staff:test", Now: func() time.Time { return noon }}
}

func second[T any](_ T, err error) error { return err }

// stream returns the events of a stream, without their envelopes.
func stream(t *testing.T, s *staff.Staff, id uuid.UUID) []events.Event {
	t.Helper()
	kind := testdb.Value[string](t, s.Pool, `SELECT coalesce(min(stream_type), '') FROM events WHERE stream_id = $1`, id)
	recorded := testdb.Must(eventlog.ReadStream(t.Context(), s.Pool, kind, id, 0))(t)
	var list []events.Event
	for _, r := range recorded {
		list = append(list, r.Event)
	}
	return list
}

var partner = uuid.MustParse("01000000-0000-7000-8000-000000000001")

// imported creates a partner's novel with a title.
func imported(t *testing.T, s *staff.Staff, spelled string, state novel.State) uuid.UUID {
	t.Helper()
	id := events.NovelID(title.Fold(spelled))
	appendAll(t, s, events.Recorded{
		StreamType: events.NovelStream, StreamID: id, StreamVersion: 1, ID: "import of " + spelled,
		Source: events.NovelsSource(partner),
		Event: events.NovelCreated{
			Title: spelled, Slug: title.Slug(spelled), Author: "Unknown", OwnerID: &partner, State: string(state),
		},
	})
	return id
}

// publishing returns PublishNovel without fields.
func publishing(s *staff.Staff) func(ctx context.Context, title, reason string) (staff.Novel, error) {
	return func(ctx context.Context, title, reason string) (staff.Novel, error) {
		return s.PublishNovel(ctx, title, novel.Fields{}, reason)
	}
}
