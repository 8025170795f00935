package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/refusals"
	"novelgate/commands/staff"
)

type integrationCommand struct {
	Create struct {
		StaffFlags
		LimitFlags
		Name       string   `arg:"" help:"Name of the partner platform; unique, and not \"host\"."`
		Capability []string `enum:"novels,posts,import" placeholder:"novels|posts|import" help:"Capability: novels (create novels), posts (post ingestion) or import (bulk import). Repeatable."`
		Review     bool     `help:"Put it under review: its new novels wait for approval."`
	} `cmd:"" help:"Register a partner platform and issue its first API key."`
	List   StaffFlags     `cmd:"" help:"List all integrations."`
	Show   IntegrationArg `cmd:"" help:"Show one integration with its latest events."`
	Rename struct {
		IntegrationArg
		Name string `arg:"" name:"new-name" help:"The new name; unique, and not \"host\"."`
	} `cmd:"" help:"Rename an integration."`
	Enable     IntegrationArg        `cmd:"" help:"Let a disabled integration post again."`
	Disable    IntegrationArg        `cmd:"" help:"Refuse all requests of an integration."`
	Limit      integrationLimit      `cmd:"" help:"Set the limits per minute."`
	Capability integrationCapability `cmd:"" help:"Switch capabilities on and off."`
	Review     struct {
		IntegrationArg
		State string `arg:"" enum:"on,off" help:"on or off."`
	} `cmd:"" help:"Begin or end a review, during which new novels wait for approval."`
	Refusals struct {
		IntegrationArg
		RowsFlag
		Code      string `placeholder:"CODE" help:"Only those with this code, such as invalid_request."`
		Operation string `enum:",novels,posts,edits,withdrawals,reports,bulk" default:"" placeholder:"NAME" help:"Only those of novels, posts, edits, withdrawals, reports, or bulk (requests in bulk as a whole)."`
		Key       string `help:"Only those with this Idempotency-Key."`
	} `cmd:"" help:"List the last refused commands of an integration, newest first."`
}

// IntegrationArg names an integration.
type IntegrationArg struct {
	StaffFlags
	Integration string `arg:"" help:"Id or name."`
}

// LimitFlags are the limits of an integration.
type LimitFlags struct {
	PostsPerMinute  *int `placeholder:"N" help:"Comments per minute, including retries (60 unless set)."`
	NovelsPerMinute *int `placeholder:"N" help:"Novel creations per minute, including those by comments (60 unless set)."`
	LinesPerMinute  *int `placeholder:"N" help:"Lines of bulk imports per minute (60000 unless set)."`
}

// change returns the change of the limits that were given.
func (f LimitFlags) change() principal.Change {
	return principal.Change{
		PostsPerMinute: f.PostsPerMinute, NovelsPerMinute: f.NovelsPerMinute, LinesPerMinute: f.LinesPerMinute,
	}
}

type integrationLimit struct {
	IntegrationArg
	LimitFlags
}

// Validate refuses a command without changes; kong calls it.
func (c *integrationLimit) Validate() error {
	if c.PostsPerMinute == nil && c.NovelsPerMinute == nil && c.LinesPerMinute == nil {
		return errors.New("nothing to change: give --posts-per-minute, --novels-per-minute or --lines-per-minute")
	}
	return nil
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

var integrationColumns = columns[staff.Integration]{
	[]any{"NAME", "ENABLED", "REVIEW", "POSTS/MIN", "NOVELS/MIN", "LINES/MIN", "CAPABILITIES"},
	func(i staff.Integration) []any {
		return []any{
			i.Name, yesNo(i.Enabled), yesNo(i.Review), i.PostsPerMinute, i.NovelsPerMinute, i.LinesPerMinute,
			strings.Join(i.Capabilities, ", "),
		}
	},
}

var refusalColumns = columns[refusals.Refusal]{
	[]any{"REFUSED", "OPERATION", "IDEMPOTENCY-KEY", "CODE", "DETAIL"},
	func(r refusals.Refusal) []any {
		detail := r.Detail
		if r.Field != nil {
			detail = *r.Field + ": " + detail
		}
		return []any{formatTime(&r.RefusedAt), r.Operation, orDash(r.IdempotencyKey), r.Code, detail}
	},
}

func (c *integrationCommand) run(ctx context.Context, env *environment) error {
	return env.answer(ctx, func(s staffService) (result, error) {
		change := func(a IntegrationArg, change principal.Change) (result, error) {
			i, err := s.Integration(ctx, a.Integration)
			if err != nil {
				return result{}, err
			}
			return integrationColumns.one(s.ChangeIntegration(ctx, i.ID, change))
		}
		switch env.verb {
		case "create":
			return c.create(ctx, s)
		case "list":
			return integrationColumns.list(s.ListIntegrations(ctx, uuid.Nil, 0)) // all
		case "show":
			i, err := s.IntegrationWithHistory(ctx, c.Show.Integration)
			return result{i, func(env *environment) {
				env.table([]any{"integration", i.ID}, []any{"created", formatTime(&i.CreatedAt)})
				integrationColumns.print(env, i)
				printHistory(env, i.History)
			}}, err
		case "rename":
			return change(c.Rename.IntegrationArg, principal.Change{Name: &c.Rename.Name})
		case "enable":
			return change(c.Enable, principal.Change{Enabled: new(true)})
		case "disable":
			return change(c.Disable, principal.Change{Enabled: new(false)})
		case "limit":
			return change(c.Limit.IntegrationArg, c.Limit.change())
		case "capability":
			return change(c.Capability.IntegrationArg,
				principal.Change{Capabilities: capabilities(c.Capability.Enable, c.Capability.Disable)})
		case "refusals":
			i, err := s.Integration(ctx, c.Refusals.Integration)
			if err != nil {
				return result{}, err
			}
			list, err := s.ListRefusals(ctx, refusals.Filter{
				IntegrationID: i.ID, Code: c.Refusals.Code, Operation: c.Refusals.Operation, Key: c.Refusals.Key,
				Limit: c.Refusals.Limit.readLimit(),
			})
			return refusalColumns.list(within(env, c.Refusals.Limit, list), err)
		default: // review
			return change(c.Review.IntegrationArg, principal.Change{Review: new(c.Review.State == "on")})
		}
	})
}

// create registers an integration, and issues its first key, which does not expire.
func (c *integrationCommand) create(ctx context.Context, s staffService) (result, error) {
	change := c.Create.change()
	change.Capabilities, change.Review = capabilities(c.Create.Capability, nil), &c.Create.Review
	i, key, secret, err := s.RegisterIntegration(ctx, c.Create.Name, change)
	if err != nil {
		return result{}, fmt.Errorf("create integration: %w", err)
	}
	return newKey{IntegrationID: i.ID, Name: i.Name, KeyID: key.ID, APIKey: secret.Reveal(), Prefix: key.Prefix}.shown(nil)
}
