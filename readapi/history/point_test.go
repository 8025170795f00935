package history_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/readapi/history"
)

func TestPoints(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("0"), post("1"))
	store(t, pool, post("2"))
	seal(t, pool)
	settle(t, pool)
	stored, err := all(t.Context(), pool, history.Filter{}, 10, 10)
	if err != nil {
		t.Fatal(err)
	}
	one, two := uuid.New(), uuid.New()
	at := func(i int, stream uuid.UUID, second int) events.Recorded {
		return events.Recorded{
			Position: stored[i].Position, ID: stored[i].ID, StreamID: stream,
			RecordedAt: start.Add(time.Duration(second) * time.Second),
		}
	}
	for name, c := range map[string]struct {
		point string
		list  []events.Recorded
		want  []string
	}{
		"a log index counts itself": {
			"1", []events.Recorded{at(0, one, 0), at(1, one, 9), at(2, one, 1)}, []string{"0", "1"},
		},
		"a time counts itself": {
			"2026-01-02T12:00:05Z", []events.Recorded{at(0, one, 4), at(1, one, 5), at(2, one, 6)}, []string{"0", "1"},
		},
		"another zone": {
			"2026-01-02T13:00:05+01:00", []events.Recorded{at(0, one, 5), at(1, one, 6)}, []string{"0"},
		},
		"a clock that was set back": {
			"2026-01-02T12:00:05Z", []events.Recorded{at(0, one, 0), at(1, one, 9), at(2, one, 1)}, []string{"0"},
		},
		"streams are on their own": {
			"2026-01-02T12:00:05Z", []events.Recorded{at(0, one, 0), at(1, two, 9), at(2, one, 1)}, []string{"0", "2"},
		},
		"before everything that is": {"2020-01-01T00:00:00Z", []events.Recorded{at(0, one, 0)}, nil},
		"behind everything that is": {
			"2", []events.Recorded{at(0, one, 0), at(1, one, 0), at(2, two, 0)}, []string{"0", "1", "2"},
		},
		"fractions of a second count": {
			"2026-01-02T12:00:04.999999Z", []events.Recorded{at(0, one, 4), at(1, one, 5)}, []string{"0"},
		},
	} {
		point, err := history.ParsePoint(t.Context(), pool, c.point)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, r := range point.Until(c.list) {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := history.ParsePoint(t.Context(), pool, "3"); !errors.Is(err, history.ErrBeyond) {
		t.Errorf("a log index that nobody has: %v", err)
	}
	for _, text := range []string{"", "yesterday", "2026-01-02", "2026-01-02T12:00:00", "-1"} {
		if _, err := history.ParsePoint(t.Context(), pool, text); err == nil {
			t.Errorf("%q is a point", text)
		}
	}
}

func TestWhichPointIsLater(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("0"), post("1"))
	seal(t, pool)
	settle(t, pool)
	for _, c := range []struct {
		point, other string
		want         bool
	}{
		{"1", "0", true},
		{"0", "1", false},
		{"1", "1", false},
		{"2026-01-02T00:00:00Z", "2026-01-01T23:59:59Z", true},
		{"2026-01-02T00:00:00+01:00", "2026-01-01T23:59:59Z", false},
		{"1", "2020-01-01T00:00:00Z", false},
		{"2999-01-01T00:00:00Z", "0", false}, // two kinds
	} {
		point, err := history.ParsePoint(t.Context(), pool, c.point)
		if err != nil {
			t.Fatal(err)
		}
		other, err := history.ParsePoint(t.Context(), pool, c.other)
		if err != nil {
			t.Fatal(err)
		}
		if got := point.After(other); got != c.want {
			t.Errorf("%s after %s: %v", c.point, c.other, got)
		}
	}
}

func TestSingleEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	stored := post("0")
	store(t, pool, stored)
	if _, err := history.At(t.Context(), pool, 0); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("not sealed: %v", err)
	}
	seal(t, pool)
	settle(t, pool)
	if e, err := history.At(t.Context(), pool, 0); err != nil || e.ID != "0" || *e.LogIndex != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := history.Version(t.Context(), pool, stored.stream, 1); err != nil || e.ID != "0" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := history.Version(t.Context(), pool, stored.stream, 2); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("no such version: %v", err)
	}
}
