package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
)

type integrationCommand struct {
	Create     integrationCreate     `cmd:"" help:"Register a partner platform and issue its first API key."`
	List       integrationList       `cmd:"" help:"List all integrations."`
	Show       integrationShow       `cmd:"" help:"Show one integration."`
	Rename     integrationRename     `cmd:"" help:"Rename an integration."`
	Enable     integrationSwitch     `cmd:"" help:"Let a disabled integration post again."`
	Disable    integrationSwitch     `cmd:"" help:"Refuse all requests of an integration."`
	Limit      integrationLimit      `cmd:"" help:"Set the limits per minute."`
	Capability integrationCapability `cmd:"" help:"Switch capabilities on and off."`
	Review     integrationReview     `cmd:"" help:"Begin or end a review, during which new novels wait for approval."`
}

var integrationColumns = columns[staff.Integration]{
	[]any{
		"INTEGRATION", "NAME", "ENABLED", "CAPABILITIES", "POSTS/MIN", "NOVELS/MIN", "UPDATES/MIN", "LINES/MIN", "REVIEW",
		"CREATED",
	},
	func(i staff.Integration) []any {
		updates := "off"
		if i.NovelUpdatesPerMinute != nil {
			updates = strconv.Itoa(*i.NovelUpdatesPerMinute)
		}
		return []any{
			i.ID, i.Name, yesNo(i.Enabled), strings.Join(i.Capabilities, ","), i.PostsPerMinute, i.NovelsPerMinute, updates,
			i.LinesPerMinute, yesNo(i.Review), formatTime(&i.CreatedAt),
		}
	},
}

// LimitFlags are the limits of an integration.
type LimitFlags struct {
	PostsPerMinute  *int        `placeholder:"N" help:"Comments per minute, including retries (60 unless set)."`
	NovelsPerMinute *int        `placeholder:"N" help:"Novel creations per minute, including those by comments (60 unless set)."`
	NovelUpdates    updateLimit `name:"novel-updates-per-minute" placeholder:"N|off" help:"Updates of its own novels per minute, including those without changes, excluding retries (off unless set)."`
	LinesPerMinute  *int        `placeholder:"N" help:"Lines of bulk imports per minute (60000 unless set)."`
}

// change returns the change of the limits that were given.
func (f LimitFlags) change() principal.Change {
	return principal.Change{
		PostsPerMinute: f.PostsPerMinute, NovelsPerMinute: f.NovelsPerMinute, NovelUpdates: f.NovelUpdates.UpdateLimit,
		LinesPerMinute: f.LinesPerMinute,
	}
}

// updateLimit is the value of --novel-updates-per-minute; nil when it was not given.
type updateLimit struct{ *events.UpdateLimit }

// UnmarshalText reads a number, or off.
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
	CommonFlags
	Integration string `arg:"" help:"Id or name."`
}

// open opens the database and finds the integration.
func (a IntegrationArg) open(ctx context.Context, env *env) (
	i staff.Integration, s *staff.Staff, out *output, err error,
) {
	if s, out, err = a.staff(ctx, env); err == nil {
		i, err = s.Integration(ctx, a.Integration)
	}
	return i, s, out, err
}

// apply changes the integration and prints its new state.
func (a IntegrationArg) apply(ctx context.Context, env *env, change principal.Change) error {
	i, s, out, err := a.open(ctx, env)
	if err != nil {
		return err
	}
	changed, err := s.ChangeIntegration(ctx, i.ID, change)
	if err != nil {
		return fmt.Errorf("change integration %s: %w", i.Name, err)
	}
	return integrationColumns.print(out, changed, nil)
}

type integrationCreate struct {
	CommonFlags
	LimitFlags
	Name       string   `arg:"" help:"Name of the partner platform; unique, and not \"host\"."`
	Capability []string `enum:"novels,posts,import" placeholder:"novels|posts|import" help:"Capability: novels (create novels), posts (post ingestion) or import (bulk import). Repeatable."`
	Review     bool     `help:"Put it under review: its new novels wait for approval."`
}

// createdIntegration is a new integration with its key, which is not shown again.
type createdIntegration struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Name          string    `json:"name"`
	KeyID         uuid.UUID `json:"keyId"`
	APIKey        string    `json:"apiKey"`
}

func (c *integrationCreate) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	change := c.change()
	change.Capabilities, change.Review = capabilities(c.Capability, nil), &c.Review
	i, err := s.CreateIntegration(ctx, c.Name, change)
	if err != nil {
		return fmt.Errorf("create integration: %w", err)
	}
	key, secret, err := s.IssueKey(ctx, i.ID, 0) // without an expiry
	if err != nil {
		return fmt.Errorf("create integration: %w", err)
	}
	made := createdIntegration{i.ID, i.Name, key.ID, secret.Reveal()}
	return out.print(made, func() {
		fmt.Fprintf(out.stdout,
			"integration %s  %s\nkey         %s\nAPI key     %s\nThe API key is shown this once; keep it safe.\n",
			made.IntegrationID, made.Name, made.KeyID, made.APIKey)
	})
}

type integrationList struct{ CommonFlags }

func (c *integrationList) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	list, err := s.ListIntegrations(ctx, uuid.Nil, 0) // all
	return integrationColumns.printList(out, list, err)
}

type integrationShow struct{ IntegrationArg }

func (c *integrationShow) Run(ctx context.Context, env *env) error {
	found, _, out, err := c.open(ctx, env)
	return integrationColumns.print(out, found, err)
}

type integrationRename struct {
	IntegrationArg
	Name string `arg:"" name:"new-name" help:"The new name; unique, and not \"host\"."`
}

func (c *integrationRename) Run(ctx context.Context, env *env) error {
	return c.apply(ctx, env, principal.Change{Name: &c.Name})
}

type integrationSwitch struct{ IntegrationArg }

func (c *integrationSwitch) Run(ctx context.Context, env *env) error {
	enabled := env.verb == "enable"
	return c.apply(ctx, env, principal.Change{Enabled: &enabled})
}

type integrationLimit struct {
	IntegrationArg
	LimitFlags
}

// Validate refuses a command without changes; kong calls it.
func (c *integrationLimit) Validate() error {
	if c.PostsPerMinute == nil && c.NovelsPerMinute == nil && c.NovelUpdates.UpdateLimit == nil &&
		c.LinesPerMinute == nil {
		return errors.New("nothing to change: give --posts-per-minute, --novels-per-minute, --novel-updates-per-minute or " +
			"--lines-per-minute")
	}
	return nil
}

func (c *integrationLimit) Run(ctx context.Context, env *env) error {
	return c.apply(ctx, env, c.change())
}

type integrationCapability struct {
	IntegrationArg
	Enable  []string `enum:"novels,posts,import" placeholder:"novels|posts|import" help:"Capability to switch on. Repeatable."`
	Disable []string `enum:"novels,posts,import" placeholder:"novels|posts|import" help:"Capability to switch off. Repeatable."`
}

// Validate refuses a command without changes, and a capability that is both enabled and disabled; kong calls it.
func (c *integrationCapability) Validate() error {
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

func (c *integrationCapability) Run(ctx context.Context, env *env) error {
	return c.apply(ctx, env, principal.Change{Capabilities: capabilities(c.Enable, c.Disable)})
}

// capabilities returns the change that switches capabilities on and off.
func capabilities(on, off []string) map[principal.Capability]bool {
	set := map[principal.Capability]bool{}
	for _, name := range on {
		set[principal.Capability(name)] = true
	}
	for _, name := range off {
		set[principal.Capability(name)] = false
	}
	return set
}

type integrationReview struct {
	IntegrationArg
	State string `arg:"" enum:"on,off" help:"on or off."`
}

func (c *integrationReview) Run(ctx context.Context, env *env) error {
	on := c.State == "on"
	return c.apply(ctx, env, principal.Change{Review: &on})
}
