package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"novelgate/aggregates/person"
	"novelgate/commands/staff"
	"novelgate/internal/apikey"
)

// keyCommand manages the API keys of integrations.
type keyCommand struct {
	Issue  keyIssue  `cmd:"" help:"Issue one more API key to an integration."`
	Rotate keyRotate `cmd:"" help:"Issue a key that replaces another; the old key works for a while longer."`
	Revoke keyRevoke `cmd:"" help:"Revoke a key; every replica rejects it within a second."`
	List   keyList   `cmd:"" help:"List keys, of one integration or of all."`
}

// personCommand manages the API keys of persons; their role is the name of the command, staff or auditor.
type personCommand struct {
	Create personCreate `cmd:"" help:"Issue an API key to a person. They may have several."`
	List   personList   `cmd:"" help:"List the keys."`
	Revoke personRevoke `cmd:"" help:"Revoke a key; every replica rejects it within a second."`
}

// role is that of the persons which a command is about.
type role string

// ProvideRole returns the role that the command line names; kong calls it.
func (*personCommand) ProvideRole(c *kong.Context) role { return role(c.Selected().Parent.Name) }

var keyColumns = columns[staff.Key]{
	[]any{"KEY", "INTEGRATION", "PREFIX", "CREATED", "EXPIRES", "REVOKED", "LAST USED"},
	func(k staff.Key) []any {
		return []any{
			k.ID, k.IntegrationID, k.Prefix + "…", moment(&k.CreatedAt), moment(k.ExpiresAt), moment(k.RevokedAt),
			moment(k.LastUsedAt),
		}
	},
}

var personKeyColumns = columns[staff.PersonKey]{
	[]any{"KEY", "NAME", "PREFIX", "CREATED", "EXPIRES", "REVOKED", "LAST USED"},
	func(k staff.PersonKey) []any {
		return []any{
			k.ID, k.Name, k.Prefix + "…", moment(&k.CreatedAt), moment(k.ExpiresAt), moment(k.RevokedAt),
			moment(k.LastUsedAt),
		}
	},
}

// LifetimeFlag is how long a new key lives: for ever when it is not given, which is its zero value.
type LifetimeFlag struct {
	ExpiresIn lifetime `name:"expires-in" placeholder:"720h" help:"Lifetime of the key; without it the key does not expire."`
}

type lifetime time.Duration

// UnmarshalText refuses what would make a key that has expired already, or, in its place, one that never does.
func (l *lifetime) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration such as 720h or 90m, not %q", text)
	}
	if d <= 0 {
		return errors.New("must be more than 0; without the flag the key does not expire")
	}
	*l = lifetime(d)
	return nil
}

type keyIssue struct {
	IntegrationArg
	LifetimeFlag
}

func (c *keyIssue) Run(ctx context.Context, out *output, s *staff.Staff, i staff.Integration) error {
	key, secret, err := s.IssueKey(ctx, i.ID, time.Duration(c.ExpiresIn))
	if err != nil {
		return fmt.Errorf("issue key: %w", err)
	}
	return printIssued(out, key, secret)
}

func printIssued(out *output, key staff.Key, secret apikey.Secret) error {
	return (&issuedKey{
		KeyID: key.ID, IntegrationID: key.IntegrationID, APIKey: secret.Reveal(), Prefix: key.Prefix,
		ExpiresAt: key.ExpiresAt,
	}).print(out)
}

// issuedKey is a new key, which is shown this once: an integration's, or that of a person with a role.
type issuedKey struct {
	KeyID         uuid.UUID  `json:"keyId"`
	IntegrationID uuid.UUID  `json:"integrationId,omitzero"`
	Role          string     `json:"role,omitzero"`
	Name          string     `json:"name,omitzero"`
	APIKey        string     `json:"apiKey"`
	Prefix        string     `json:"prefix"`
	ExpiresAt     *time.Time `json:"expiresAt"`
}

func (k *issuedKey) print(out *output) error {
	return out.print(k, func() {
		if k.Role != "" {
			fmt.Fprintf(out.stdout, "%-7s  %s\n", k.Role, printable(k.Name))
		}
		fmt.Fprintf(out.stdout, "key      %s\nAPI key  %s\nexpires  %s\nThe API key is shown this once; keep it safe.\n",
			k.KeyID, k.APIKey, moment(k.ExpiresAt))
	})
}

type keyRotate struct {
	CommonFlags
	KeyID   uuid.UUID     `arg:"" name:"key-id" help:"Id of the key, as key list shows it."`
	Overlap time.Duration `default:"24h" help:"How long the old key still works."`
}

// Help is the end of what --help prints; kong calls it.
func (*keyRotate) Help() string {
	return `The old key never lives longer than it would have. The new one does not expire, also in the place of one that would have: for a
successor that does, issue a key with --expires-in and revoke the old one.`
}

func (c *keyRotate) Run(ctx context.Context, out *output, s *staff.Staff) error {
	key, secret, err := s.RotateKey(ctx, c.KeyID, c.Overlap)
	if err != nil {
		return fmt.Errorf("rotate key: %w", err)
	}
	return printIssued(out, key, secret)
}

type keyRevoke struct {
	CommonFlags
	KeyID uuid.UUID `arg:"" name:"key-id" help:"Id of the key, as key list shows it."`
	OptionalReason
}

func (c *keyRevoke) Run(ctx context.Context, out *output, s *staff.Staff) error {
	key, err := s.RevokeKey(ctx, c.KeyID, c.Reason)
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return keyColumns.print(out, key, nil)
}

type keyList struct {
	CommonFlags
	Integration string `arg:"" optional:"" help:"Id or name of an integration; all without it."`
}

func (c *keyList) Run(ctx context.Context, out *output, s *staff.Staff) error {
	var of staff.Integration // of any, without an id
	if c.Integration != "" {
		var err error
		if of, err = s.Integration(ctx, c.Integration); err != nil {
			return err
		}
	}
	list, err := s.Keys(ctx, of.ID)
	return keyColumns.printList(out, list, err)
}

type personCreate struct {
	CommonFlags
	LifetimeFlag
	Name string `arg:"" help:"Name of the person, as the history will show it."`
}

func (c *personCreate) Run(ctx context.Context, out *output, s *staff.Staff, of role) error {
	key, secret, err := s.IssuePersonKey(ctx, string(of), c.Name, time.Duration(c.ExpiresIn))
	if err != nil {
		return fmt.Errorf("issue key: %w", err)
	}
	return (&issuedKey{
		KeyID: key.ID, Role: key.Role, Name: key.Name, APIKey: secret.Reveal(), Prefix: key.Prefix, ExpiresAt: key.ExpiresAt,
	}).print(out)
}

type personList struct{ CommonFlags }

func (*personList) Run(ctx context.Context, out *output, s *staff.Staff, of role) error {
	list, err := s.PersonKeys(ctx, string(of))
	return personKeyColumns.printList(out, list, err)
}

type personRevoke struct {
	CommonFlags
	KeyID uuid.UUID `arg:"" name:"key-id" help:"Id of the key, as list shows it."`
	OptionalReason
}

func (c *personRevoke) Run(ctx context.Context, out *output, s *staff.Staff, of role) error {
	list, err := s.PersonKeys(ctx, string(of))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(k staff.PersonKey) bool { return k.ID == c.KeyID }) {
		return fmt.Errorf("revoke key: %w of role %s", person.ErrKeyNotFound, of)
	}
	key, err := s.RevokePersonKey(ctx, c.KeyID, c.Reason)
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return personKeyColumns.print(out, key, nil)
}
