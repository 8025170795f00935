package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/sandbox"
)

type sandboxCommand struct {
	List   sandboxList   `cmd:"" help:"List the sandboxes and their integrations; integration create --sandbox makes one."`
	Wipe   sandboxChange `cmd:"" help:"Remove everything in a sandbox except its integrations and their keys."`
	Delete sandboxChange `cmd:"" help:"Remove a sandbox with its integrations and keys."`
}

type sandboxList struct{ CommonFlags }

// listedSandbox is an integration in a sandbox.
type listedSandbox struct {
	Sandbox string `json:"sandbox"`
	staff.Integration
}

var sandboxColumns = columns[listedSandbox]{
	[]any{"SANDBOX", "INTEGRATION", "NAME", "ENABLED", "CREATED"},
	func(l listedSandbox) []any {
		return []any{l.Sandbox, l.ID, l.Name, yesNo(l.Enabled), formatTime(&l.CreatedAt)}
	},
}

func (*sandboxList) Run(ctx context.Context, out *output, now clock, main *pgxpool.Pool) error {
	names, err := sandbox.List(ctx, main)
	if err != nil {
		return err
	}
	list := []listedSandbox{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		url, err := sandbox.URL(main.Config().ConnString(), name)
		if err != nil {
			return err
		}
		err = withStaff(ctx, url, now, func(s *staff.Staff) error {
			integrations, err := s.ListIntegrations(ctx, staff.SortKey{}, 0)
			for _, i := range integrations {
				list = append(list, listedSandbox{name, i})
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("sandbox %s: %w", name, err)
		}
	}
	return sandboxColumns.printList(out, list, nil)
}

// withStaff calls do with the staff commands on a database.
func withStaff(ctx context.Context, url string, now clock, do func(*staff.Staff) error) error {
	pool, err := database.OpenGeneral(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(newStaff(pool, now))
}

type sandboxChange struct {
	CommonFlags
	Name string `arg:"" name:"sandbox" help:"Name of the sandbox: four characters, as sandbox list shows it."`
}

// Run wipes or deletes the sandbox.
func (c *sandboxChange) Run(
	ctx context.Context, out *output, now clock, sub subcommand, main *pgxpool.Pool,
) (err error) {
	if sub == "delete" {
		err = sandbox.Delete(ctx, main, c.Name)
	} else {
		err = sandbox.Wipe(ctx, main, c.Name, func(oldURL, newURL string) error {
			return withStaff(ctx, oldURL, now, func(from *staff.Staff) error {
				return withStaff(ctx, newURL, now, func(to *staff.Staff) error { return to.CopyIntegrations(ctx, from) })
			})
		})
	}
	if err != nil {
		return fmt.Errorf("%s sandbox: %w", sub, err)
	}
	return out.print(map[string]string{"sandbox": c.Name}, func() {})
}
