package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/auth"
)

// keyCommand manages the API keys of integrations.
type keyCommand struct {
	Issue  keyIssue  `cmd:"" help:"Issue another API key to an integration."`
	Rotate keyRotate `cmd:"" help:"Issue a key that replaces another; the old key stays valid for the overlap."`
	Revoke keyRevoke `cmd:"" help:"Revoke a key; every replica rejects it within a second."`
	List   keyList   `cmd:"" help:"List keys, of one integration or of all."`
}

// staffUserCommand manages the API keys of staff users. The name of the command, staff or auditor, is their role.
type staffUserCommand struct {
	Create staffUserCreate `cmd:"" help:"Issue an API key. One name may have several keys."`
	List   staffUserList   `cmd:"" help:"List the keys."`
	Revoke staffUserRevoke `cmd:"" help:"Revoke a key; every replica rejects it within a second."`
}

var keyColumns = columns[staff.Key]{
	[]any{"KEY", "INTEGRATION", "PREFIX", "CREATED", "EXPIRES", "REVOKED", "LAST USED"},
	func(k staff.Key) []any {
		return []any{
			k.ID, k.IntegrationID, k.Prefix + "…", formatTime(&k.CreatedAt), formatTime(k.ExpiresAt), formatTime(k.RevokedAt),
			formatTime(k.LastUsedAt),
		}
	},
}

var userKeyColumns = columns[staff.UserKey]{
	[]any{"KEY", "NAME", "PREFIX", "CREATED", "EXPIRES", "REVOKED", "LAST USED"},
	func(k staff.UserKey) []any {
		return []any{
			k.ID, k.Name, k.Prefix + "…", formatTime(&k.CreatedAt), formatTime(k.ExpiresAt), formatTime(k.RevokedAt),
			formatTime(k.LastUsedAt),
		}
	},
}

// LifetimeFlag is the lifetime of a new key. Without the flag the key does not expire.
type LifetimeFlag struct {
	ExpiresIn lifetime `placeholder:"720h" help:"Lifetime of the key (default: it does not expire)."`
}

type lifetime time.Duration

// UnmarshalText refuses 0, which would mean no expiry, and a negative lifetime.
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

func (c *keyIssue) Run(ctx context.Context, env *env) error {
	i, s, out, err := c.open(ctx, env)
	if err != nil {
		return err
	}
	key, secret, err := s.IssueKey(ctx, i.ID, time.Duration(c.ExpiresIn))
	if err != nil {
		return fmt.Errorf("issue key: %w", err)
	}
	return printIssued(out, key, secret)
}

func printIssued(out *output, key staff.Key, secret auth.Secret) error {
	return (&issuedKey{
		KeyID: key.ID, IntegrationID: key.IntegrationID, APIKey: secret.Reveal(), Prefix: key.Prefix,
		ExpiresAt: key.ExpiresAt,
	}).print(out)
}

// issuedKey is a new key of an integration or of a staff user. It is not shown again.
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
			k.KeyID, k.APIKey, formatTime(k.ExpiresAt))
	})
}

type keyRotate struct {
	CommonFlags
	KeyID   uuid.UUID     `arg:"" help:"Id of the key, as key list shows it."`
	Overlap time.Duration `default:"24h" help:"How long the old key stays valid."`
}

func (*keyRotate) Help() string {
	return "The old key stays valid for the overlap, but never beyond its own expiry. The new key does not expire, even " +
		"if the old one does. To replace a key by one that expires, issue a key with --expires-in and revoke the old one."
}

func (c *keyRotate) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	key, secret, err := s.RotateKey(ctx, c.KeyID, c.Overlap)
	if err != nil {
		return fmt.Errorf("rotate key: %w", err)
	}
	return printIssued(out, key, secret)
}

type keyRevoke struct {
	CommonFlags
	KeyID uuid.UUID `arg:"" help:"Id of the key, as key list shows it."`
	OptionalReason
}

func (c *keyRevoke) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	key, err := s.RevokeKey(ctx, c.KeyID, c.Reason)
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return keyColumns.print(out, key, nil)
}

type keyList struct {
	CommonFlags
	Integration string `arg:"" optional:"" help:"Id or name of an integration (default: all)."`
}

func (c *keyList) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	var owner staff.Integration // the zero id selects all keys
	if c.Integration != "" {
		if owner, err = s.Integration(ctx, c.Integration); err != nil {
			return err
		}
	}
	list, err := s.ListKeys(ctx, owner.ID, uuid.Nil, 0)
	return keyColumns.printList(out, list, err)
}

type staffUserCreate struct {
	CommonFlags
	LifetimeFlag
	Name string `arg:"" help:"Name of the staff user or auditor. The history shows it."`
}

func (c *staffUserCreate) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	key, secret, err := s.IssueUserKey(ctx, env.noun, c.Name, time.Duration(c.ExpiresIn))
	if err != nil {
		return fmt.Errorf("issue key: %w", err)
	}
	return (&issuedKey{
		KeyID: key.ID, Role: key.Role, Name: key.Name, APIKey: secret.Reveal(), Prefix: key.Prefix, ExpiresAt: key.ExpiresAt,
	}).print(out)
}

type staffUserList struct{ CommonFlags }

func (c *staffUserList) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	list, err := s.UserKeys(ctx, env.noun)
	return userKeyColumns.printList(out, list, err)
}

type staffUserRevoke struct {
	CommonFlags
	KeyID uuid.UUID `arg:"" help:"Id of the key, as list shows it."`
	OptionalReason
}

func (c *staffUserRevoke) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	list, err := s.UserKeys(ctx, env.noun)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(k staff.UserKey) bool { return k.ID == c.KeyID }) {
		return fmt.Errorf("revoke key: %w of role %s", principal.ErrKeyNotFound, env.noun)
	}
	key, err := s.RevokeUserKey(ctx, c.KeyID, c.Reason)
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return userKeyColumns.print(out, key, nil)
}
