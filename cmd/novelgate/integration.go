package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"novelgate/aggregates/integration"
	"novelgate/commands/staff"
	"novelgate/events"
)

// IntegrationCommand is `novelgate integration …`.
type IntegrationCommand struct {
	Create     IntegrationCreate     `cmd:"" help:"Take a partner platform on and issue its first API key."`
	List       IntegrationList       `cmd:"" help:"List all integrations."`
	Show       IntegrationShow       `cmd:"" help:"Show one integration."`
	Rename     IntegrationRename     `cmd:"" help:"Give an integration another name."`
	Enable     IntegrationEnable     `cmd:"" help:"Let a disabled integration post again."`
	Disable    IntegrationDisable    `cmd:"" help:"Accept nothing from an integration any more."`
	Limit      IntegrationLimit      `cmd:"" help:"Set the limits per minute."`
	Capability IntegrationCapability `cmd:"" help:"Switch capabilities on and off."`
	Review     IntegrationReview     `cmd:"" help:"Put an integration under review (its new novels wait for approval), or end that."`
}

// LimitFlags are the limits of an integration.
type LimitFlags struct {
	PostsPerMinute  *int        `name:"posts-per-minute" placeholder:"N" help:"Comments in any minute, retries included (60 unless set)."`
	NovelsPerMinute *int        `name:"novels-per-minute" placeholder:"N" help:"Novel creations in any minute, those caused by comments included (60 unless set)."`
	NovelUpdates    updateLimit `name:"novel-updates-per-minute" placeholder:"N|off" help:"Updates of its own novels in any minute, those that change nothing included, retries not (off unless set)."`
}

func (f *LimitFlags) change() integration.Change {
	return integration.Change{
		PostsPerMinute: f.PostsPerMinute, NovelsPerMinute: f.NovelsPerMinute, NovelUpdates: f.NovelUpdates.UpdateLimit,
	}
}

// updateLimit is the value of --novel-updates-per-minute; nil when it was not given.
type updateLimit struct{ *events.UpdateLimit }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *updateLimit) UnmarshalText(text []byte) error {
	l.UpdateLimit = &events.UpdateLimit{}
	if string(text) == "off" {
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("%q is neither a whole number nor off", text)
	}
	l.PerMinute = &n
	return nil
}

// IntegrationArg names an integration.
type IntegrationArg struct {
	Integration string `arg:"" help:"Id or name."`
}

// IntegrationCreate is `novelgate integration create`.
type IntegrationCreate struct {
	DatabaseFlags
	OutputFlags
	LimitFlags
	Name       string   `arg:"" help:"Name of the partner platform; unique, and not \"host\"."`
	Capability []string `name:"capability" enum:"novels,posts" placeholder:"novels|posts" help:"What it may do: novels (create novels), posts (post ingestion). Repeatable."`
	Review     bool     `help:"Put it under review: its new novels wait for approval."`
}

// created is the JSON of a new integration.
type created struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Name          string    `json:"name"`
	KeyID         uuid.UUID `json:"keyId"`
	APIKey        string    `json:"apiKey"`
}

// Run creates the integration and prints its key, this once.
func (c *IntegrationCreate) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		change := c.change()
		change.Capabilities, change.Review = capabilities(c.Capability, true), &c.Review
		made, err := s.CreateIntegration(in.ctx, c.Name, change)
		if err != nil {
			return fmt.Errorf("create integration: %w", err)
		}
		key, secret, err := s.IssueKey(in.ctx, made.ID, 0)
		if err != nil {
			return fmt.Errorf("issue key: %w", err)
		}
		return c.print(in, created{made.ID, made.Name, key.ID, secret.Reveal()}, func() {
			fmt.Fprintf(in.stdout,
				"integration %s  %s\nkey         %s\nAPI key     %s\nThe API key is shown this once; keep it safe.\n", made.ID,
				made.Name, key.ID, secret.Reveal())
		})
	})
}

// IntegrationList is `novelgate integration list`.
type IntegrationList struct {
	DatabaseFlags
	OutputFlags
}

// Run prints all integrations.
func (c *IntegrationList) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		list, err := s.Integrations(in.ctx)
		if err != nil {
			return err
		}
		return c.print(in, list, func() { printIntegrations(in, list...) })
	})
}

// IntegrationShow is `novelgate integration show`.
type IntegrationShow struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
}

// Run prints one integration.
func (c *IntegrationShow) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, c.Integration)
		if err != nil {
			return err
		}
		return c.print(in, found, func() { printIntegrations(in, found) })
	})
}

// IntegrationRename is `novelgate integration rename`.
type IntegrationRename struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
	Name string `arg:"" name:"new-name" help:"The new name; unique, and not \"host\"."`
}

// Run renames the integration.
func (c *IntegrationRename) Run(in *invocation) error {
	return changeIntegration(in, c.DatabaseFlags, c.OutputFlags, c.Integration, integration.Change{Name: &c.Name})
}

// IntegrationEnable is `novelgate integration enable`.
type IntegrationEnable struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
}

// Run enables the integration.
func (c *IntegrationEnable) Run(in *invocation) error {
	yes := true
	return changeIntegration(in, c.DatabaseFlags, c.OutputFlags, c.Integration, integration.Change{Enabled: &yes})
}

// IntegrationDisable is `novelgate integration disable`.
type IntegrationDisable struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
}

// Run disables the integration.
func (c *IntegrationDisable) Run(in *invocation) error {
	no := false
	return changeIntegration(in, c.DatabaseFlags, c.OutputFlags, c.Integration, integration.Change{Enabled: &no})
}

// IntegrationLimit is `novelgate integration limit`.
type IntegrationLimit struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
	LimitFlags
}

// Validate refuses to change nothing; kong calls it.
func (c *IntegrationLimit) Validate() error {
	if c.PostsPerMinute == nil && c.NovelsPerMinute == nil && c.NovelUpdates.UpdateLimit == nil {
		return errors.New("nothing to change: give --posts-per-minute, --novels-per-minute or --novel-updates-per-minute")
	}
	return nil
}

// Run sets the limits that were given.
func (c *IntegrationLimit) Run(in *invocation) error {
	return changeIntegration(in, c.DatabaseFlags, c.OutputFlags, c.Integration, c.change())
}

// IntegrationCapability is `novelgate integration capability`.
type IntegrationCapability struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
	Enable  []string `enum:"novels,posts" placeholder:"novels|posts" help:"Capability to switch on. Repeatable."`
	Disable []string `enum:"novels,posts" placeholder:"novels|posts" help:"Capability to switch off. Repeatable."`
}

// Validate refuses to change nothing, and what contradicts itself; kong calls it.
func (c *IntegrationCapability) Validate() error {
	if len(c.Enable) == 0 && len(c.Disable) == 0 {
		return errors.New("nothing to change: give --enable or --disable")
	}
	for _, name := range c.Enable {
		if slices.Contains(c.Disable, name) {
			return fmt.Errorf("%s cannot be both enabled and disabled", name)
		}
	}
	return nil
}

// Run switches capabilities.
func (c *IntegrationCapability) Run(in *invocation) error {
	wanted := capabilities(c.Enable, true)
	for capability := range capabilities(c.Disable, false) {
		wanted[capability] = false
	}
	return changeIntegration(in, c.DatabaseFlags, c.OutputFlags, c.Integration, integration.Change{Capabilities: wanted})
}

// IntegrationReview is `novelgate integration review`.
type IntegrationReview struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
	State string `arg:"" enum:"on,off" help:"on or off."`
}

// Run starts or ends the review.
func (c *IntegrationReview) Run(in *invocation) error {
	on := c.State == "on"
	return changeIntegration(in, c.DatabaseFlags, c.OutputFlags, c.Integration, integration.Change{Review: &on})
}

func changeIntegration(
	in *invocation, db DatabaseFlags, out OutputFlags, idOrName string, change integration.Change,
) error {
	return db.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, idOrName)
		if err != nil {
			return err
		}
		changed, err := s.ChangeIntegration(in.ctx, found.ID, change)
		if err != nil {
			return fmt.Errorf("change integration %s: %w", found.Name, err)
		}
		return out.print(in, changed, func() { printIntegrations(in, changed) })
	})
}

func capabilities(names []string, on bool) map[integration.Capability]bool {
	set := map[integration.Capability]bool{}
	for _, name := range names {
		set[integration.Capability(name)] = on
	}
	return set
}

func printIntegrations(in *invocation, list ...staff.Integration) {
	rows := make([][]any, len(list))
	for i, found := range list {
		updates := "off"
		if found.NovelUpdatesPerMinute != nil {
			updates = strconv.Itoa(*found.NovelUpdatesPerMinute)
		}
		rows[i] = []any{
			found.ID, found.Name, yesNo(found.Enabled), strings.Join(found.Capabilities, ","),
			found.PostsPerMinute, found.NovelsPerMinute, updates, yesNo(found.Review), moment(&found.CreatedAt),
		}
	}
	in.table([]any{
		"INTEGRATION", "NAME", "ENABLED", "CAPABILITIES", "POSTS/MIN", "NOVELS/MIN", "UPDATES/MIN", "REVIEW", "CREATED",
	}, rows)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
