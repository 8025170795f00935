package staff_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

func TestCreateIntegration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	got, err := s.CreateIntegration(t.Context(), " Partner ", principal.Change{
		Capabilities:   map[principal.Capability]bool{principal.Novels: true, principal.Posts: true},
		PostsPerMinute: new(600), Review: new(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := staff.Integration{
		ID: got.ID, Name: "Partner", Enabled: true, Capabilities: []string{"novels", "posts"}, PostsPerMinute: 600,
		NovelsPerMinute: 60, LinesPerMinute: 60_000,
		Review: true, CreatedAt: noon,
	}
	got.CreatedAt = got.CreatedAt.UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, handle := range []string{got.ID.String(), "Partner", "PARTNER"} {
		if found, err := s.Integration(t.Context(), handle); err != nil || found.ID != got.ID {
			t.Errorf("%s found %s, %v", handle, found.ID, err)
		}
	}
	for _, handle := range []string{"unknown", "", uuid.NewString(), "' OR true --"} {
		if _, err := s.Integration(t.Context(), handle); !errors.Is(err, principal.ErrNotFound) {
			t.Errorf("%q: %v, want ErrNotFound", handle, err)
		}
	}
	recorded, err := eventlog.ReadStream(t.Context(), s.Pool, events.IntegrationStream, got.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]bool{}
	for i, r := range recorded {
		if r.Metadata.Actor != "staff:test" || r.ID != recorded[0].ID || r.StreamVersion != i+1 ||
			r.Metadata.Batch == uuid.Nil {
			t.Errorf("recorded %+v", r)
		}
		sources[r.Source] = true
	}
	if len(recorded) != 5 || len(sources) != 5 {
		t.Errorf("%d events from %d sources, want 5", len(recorded), len(sources))
	}
}

func (b integrations) rename(id uuid.UUID, name string) error {
	_, err := b.staff.ChangeIntegration(b.t.Context(), id, principal.Change{Name: &name})
	return err
}

// integrations are some to rename.
type integrations struct {
	t     *testing.T
	staff *staff.Staff
	ids   []uuid.UUID
}

func withIntegrations(t *testing.T, names ...string) integrations {
	t.Helper()
	b := integrations{t: t, staff: setup(t)}
	for _, name := range names {
		made := testdb.Must(b.staff.CreateIntegration(t.Context(), name, principal.Change{}))(t)
		b.ids = append(b.ids, made.ID)
	}
	return b
}

func TestRename(t *testing.T) {
	t.Parallel()
	b := withIntegrations(t, "Alpha", "Beta")
	for _, step := range []struct {
		name string
		want error
	}{{"Gamma", nil}, {"GAMMA", nil}, {"bETA", staff.ErrNameTaken}, {"Delta", nil}} {
		if err := b.rename(b.ids[0], step.name); !errors.Is(err, step.want) {
			t.Errorf("%q: %v, want %v", step.name, err, step.want)
		}
	}
	if found, err := b.staff.Integration(t.Context(), "delta"); err != nil || found.ID != b.ids[0] {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := b.staff.Integration(t.Context(), "Gamma"); !errors.Is(err, principal.ErrNotFound) {
		t.Errorf("by its old name: %v", err)
	}
	if err := b.rename(b.ids[1], "gamma"); err != nil {
		t.Errorf("a name that was given up: %v", err)
	}
}

// TestDecisionsAreTakenInTurn: a decision waits for the lock of the log, and is taken on what the holder has appended.
func TestDecisionsAreTakenInTurn(t *testing.T) {
	t.Parallel()
	b := withIntegrations(t, "One")
	locked, release, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	tell := sync.OnceFunc(func() { close(locked) }) // on a busy machine the holder may be ended and try again
	go func() {
		held <- eventlog.Under(context.Background(), b.staff.Pool, func(tx pgx.Tx) error {
			tell()
			<-release
			history, err := eventlog.ReadStream(context.Background(), tx, events.IntegrationStream, b.ids[0], 0)
			if err != nil {
				return err
			}
			renamed := history[0]
			renamed.StreamVersion, renamed.ID = len(history)+1, uuid.NewString()
			renamed.Event, renamed.Metadata = events.IntegrationRenamed{Name: "Two"}, events.Metadata{Actor: "staff:test"}
			return projections.Append(context.Background(), tx, renamed)
		})
	}()
	<-locked
	ended := make(chan error, 1)
	go func() { ended <- b.rename(b.ids[0], "Three") }()
	testdb.Eventually(t, "the command waits", func() (waits bool) {
		err := b.staff.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
			WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return err == nil && waits || len(ended) > 0
	})
	if len(ended) > 0 {
		t.Fatalf("the command has not waited: %v", <-ended)
	}
	close(release)
	if err := errors.Join(<-held, <-ended); err != nil {
		t.Fatal(err)
	}
	if found, err := b.staff.Integration(t.Context(), "Three"); err != nil || found.ID != b.ids[0] {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestPastedKeysAreRefused: the log would keep a key that was pasted instead of a name or a reason.
func TestPastedKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	key := auth.NewKey(auth.PartnerKey).Reveal()
	id := newIntegration(t, s, "Fan Site")
	author := staff.AuthorName{IntegrationID: id, ExternalUUID: "u"}
	_, _, err := s.IssueUserKey(t.Context(), principal.Staff, key, 0)
	for name, err := range map[string]error{
		"staff user":       err,
		"integration":      second(s.CreateIntegration(t.Context(), "My "+key, principal.Change{})),
		"new name":         second(s.ChangeIntegration(t.Context(), id, principal.Change{Name: &key})),
		"member":           second(s.LinkAuthor(t.Context(), author, key, "")),
		"reason":           second(s.BlockAuthor(t.Context(), author, "has sent "+key)),
		"title of a novel": second(s.PublishNovel(t.Context(), key, novel.Fields{}, "r")),
	} {
		if !errors.Is(err, staff.ErrHasKey) || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if held := testdb.FindWords(t, s.Pool.Config().ConnString(), key); len(held) > 0 {
		t.Errorf("the key is in %v", held)
	}
}
