package staff_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

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
		made, err := b.staff.CreateIntegration(t.Context(), name, principal.Change{})
		if err != nil {
			t.Fatal(err)
		}
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
	}{
		{"Gamma", nil},
		{" Gamma\n", nil},
		{"GAMMA", nil},
		{"bETA", staff.ErrNameTaken},
		{"", principal.ErrNameInvalid},
		{"Alpha", nil},
	} {
		if err := b.rename(b.ids[0], step.name); !errors.Is(err, step.want) {
			t.Errorf("%q: %v, want %v", step.name, err, step.want)
		}
	}
	if found, err := b.staff.Integration(t.Context(), "alpha"); err != nil || found.ID != b.ids[0] ||
		found.Name != "Alpha" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := b.staff.Integration(t.Context(), "Gamma"); !errors.Is(err, principal.ErrNotFound) {
		t.Errorf("by its old name: %v", err)
	}
	if list := stream(t, b.staff, b.ids[0]); len(list) != 4 ||
		list[2] != events.Event(events.IntegrationRenamed{Name: "GAMMA"}) {
		t.Errorf("events %+v", list)
	}
	if err := b.rename(b.ids[1], "gamma"); err != nil {
		t.Errorf("a name that was given up: %v", err)
	}
	if err := b.rename(uuid.New(), "Delta"); !errors.Is(err, principal.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestNamesAtOnce: integrations take and give up three names at once. No two ever have the same one, and the table can
// be rebuilt in the order of the log.
func TestNamesAtOnce(t *testing.T) {
	t.Parallel()
	b := withIntegrations(t, "One", "Two", "Three", "Four")
	var wg sync.WaitGroup
	for i, id := range b.ids {
		wg.Go(func() {
			for n := range 25 {
				name := fmt.Sprint("Name ", (n+i)%3)
				if n%4 == 3 {
					name = fmt.Sprint("Spare ", i)
				}
				if err := b.rename(id, name); err != nil && !errors.Is(err, staff.ErrNameTaken) {
					t.Errorf("rename: %v", err)
				}
			}
		})
	}
	wg.Wait()
	list, err := b.staff.ListIntegrations(t.Context(), staff.Place{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range list {
		names = append(names, i.Name)
	}
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(b.ids) {
		t.Errorf("names %v", names)
	}

	recorded := settled(t, b.staff)
	err = pgx.BeginFunc(t.Context(), b.staff.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `DELETE FROM integrations`); err != nil {
			return err
		}
		return projections.Integrations{}.Apply(t.Context(), tx, recorded)
	})
	if err != nil {
		t.Fatalf("rebuild from %d events: %v", len(recorded), err)
	}
	rebuilt, err := b.staff.ListIntegrations(t.Context(), staff.Place{}, 0)
	if err != nil || len(rebuilt) != len(list) {
		t.Fatalf("%+v, %v", rebuilt, err)
	}
	for i := range list {
		if rebuilt[i].Name != list[i].Name {
			t.Errorf("%s was rebuilt as %s", list[i].Name, rebuilt[i].Name)
		}
	}
}

// settled reads the whole log, when no transaction on the server hides a part of it any more.
func settled(t *testing.T, s *staff.Staff) []events.Recorded {
	t.Helper()
	var stored int
	if err := s.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	var recorded []events.Recorded
	testdb.Eventually(t, fmt.Sprint(stored, " events have settled"), func() bool {
		var err error
		if recorded, err = eventlog.ReadAfter(t.Context(), s.Pool, events.Position{}, stored+1); err != nil {
			t.Fatal(err)
		}
		return len(recorded) == stored
	})
	return recorded
}
