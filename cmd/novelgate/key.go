package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/internal/auth"
)

// keyCommand manages the API keys of integrations.
type keyCommand struct {
	Issue struct {
		IntegrationArg
		LifetimeFlag
	} `cmd:"" help:"Issue another API key to an integration."`
	Rotate keyRotate `cmd:"" help:"Issue a key that replaces another; the old key stays valid for the overlap."`
	Revoke keyRevoke `cmd:"" help:"Revoke a key; every replica rejects it within a second."`
	List   struct {
		StaffFlags
		Integration string `arg:"" optional:"" help:"Id or name of an integration (default: all)."`
	} `cmd:"" help:"List keys, of one integration or of all."`
}

// staffUserCommand manages the API keys of staff users. The name of the command, staff or auditor, is their role.
type staffUserCommand struct {
	Create struct {
		StaffFlags
		LifetimeFlag
		Name string `arg:"" help:"Name of the staff user or auditor. The history shows it."`
	} `cmd:"" help:"Issue an API key. One name may have several keys."`
	List   StaffFlags `cmd:"" help:"List the keys."`
	Revoke keyRevoke  `cmd:"" help:"Revoke a key; every replica rejects it within a second."`
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

type keyRotate struct {
	StaffFlags
	Key     string        `arg:"" help:"Its prefix, as list shows it, its integration if that has one valid key, or its id."`
	Overlap time.Duration `default:"24h" help:"How long the old key stays valid."`
}

func (*keyRotate) Help() string {
	return "The old key stays valid for the overlap, but never beyond its own expiry. The new key does not expire, even " +
		"if the old one does. To replace a key by one that expires, issue a key with --expires-in and revoke the old one."
}

type keyRevoke struct {
	StaffFlags
	Key string `arg:"" help:"Its prefix, as list shows it, its owner if they have one valid key, or its id."`
	OptionalReason
}

// keyColumns returns the columns of keys of integrations, which owners names.
func keyColumns(owners map[uuid.UUID]string) columns[staff.Key] {
	return columns[staff.Key]{
		[]any{"KEY", "INTEGRATION", "CREATED", "EXPIRES", "REVOKED", "LAST USED"},
		func(k staff.Key) []any {
			return []any{
				k.Prefix + "…", owners[k.IntegrationID], formatTime(&k.CreatedAt), formatTime(k.ExpiresAt),
				formatTime(k.RevokedAt), formatTime(k.LastUsedAt),
			}
		},
	}
}

var userKeyColumns = columns[staff.UserKey]{
	[]any{"KEY", "NAME", "CREATED", "EXPIRES", "REVOKED", "LAST USED"},
	func(k staff.UserKey) []any {
		return []any{
			k.Prefix + "…", k.Name, formatTime(&k.CreatedAt), formatTime(k.ExpiresAt), formatTime(k.RevokedAt),
			formatTime(k.LastUsedAt),
		}
	},
}

func (c *keyCommand) run(ctx context.Context, env *environment) error {
	return env.answer(ctx, func(s staffService) (result, error) {
		switch env.verb {
		case "issue":
			i, err := s.Integration(ctx, c.Issue.Integration)
			if err != nil {
				return result{}, err
			}
			return issuedKey(s.IssueKey(ctx, i.ID, time.Duration(c.Issue.ExpiresIn)))
		case "rotate":
			id, err := keyID(ctx, s, c.Rotate.Key, env.now())
			if err != nil {
				return result{}, err
			}
			return issuedKey(s.RotateKey(ctx, id, c.Rotate.Overlap))
		case "revoke":
			id, err := keyID(ctx, s, c.Revoke.Key, env.now())
			if err != nil {
				return result{}, err
			}
			key, err := s.RevokeKey(ctx, id, c.Revoke.Reason)
			if err != nil {
				return result{}, err
			}
			owners, err := integrationNames(ctx, s)
			return keyColumns(owners).one(key, err)
		default: // list
			id, err := integrationOrAll(ctx, s, c.List.Integration)
			if err != nil {
				return result{}, err
			}
			list, err := s.ListKeys(ctx, id, uuid.Nil, 0)
			if err != nil {
				return result{}, err
			}
			owners, err := integrationNames(ctx, s)
			return keyColumns(owners).list(list, err)
		}
	})
}

func (c *staffUserCommand) run(ctx context.Context, env *environment) error {
	s, err := env.staffOnDatabase(ctx)
	if err != nil {
		return err
	}
	if env.verb == "create" {
		return env.show(issuedUserKey(s.IssueUserKey(ctx, env.noun, c.Create.Name, time.Duration(c.Create.ExpiresIn))))
	}
	list, err := s.UserKeys(ctx, env.noun)
	if env.verb == "list" || err != nil {
		return env.show(userKeyColumns.list(list, err))
	}
	id, err := userKeyID(c.Revoke.Key, list, env.now())
	if err != nil {
		return env.advise(ctx, s, err)
	}
	return env.show(userKeyColumns.one(s.RevokeUserKey(ctx, id, c.Revoke.Reason)))
}

// integrationOrAll returns the id of an integration, given its id or name; uuid.Nil, which stands for all, without it.
func integrationOrAll(ctx context.Context, s staffService, idOrName string) (uuid.UUID, error) {
	if idOrName == "" {
		return uuid.Nil, nil
	}
	i, err := s.Integration(ctx, idOrName)
	return i.ID, err
}

// newKey is a new key of an integration or of a staff user. It is not shown again.
type newKey struct {
	KeyID         uuid.UUID  `json:"keyId"`
	IntegrationID uuid.UUID  `json:"integrationId,omitzero"`
	Role          string     `json:"role,omitzero"`
	Name          string     `json:"name,omitzero"`
	APIKey        string     `json:"apiKey"`
	Prefix        string     `json:"prefix"`
	ExpiresAt     *time.Time `json:"expiresAt"`
}

func issuedKey(key staff.Key, secret auth.Secret, err error) (result, error) {
	return newKey{
		KeyID: key.ID, IntegrationID: key.IntegrationID, APIKey: secret.Reveal(), Prefix: key.Prefix,
		ExpiresAt: key.ExpiresAt,
	}.shown(err)
}

func issuedUserKey(key staff.UserKey, secret auth.Secret, err error) (result, error) {
	return newKey{
		KeyID: key.ID, Role: key.Role, Name: key.Name, APIKey: secret.Reveal(), Prefix: key.Prefix,
		ExpiresAt: key.ExpiresAt,
	}.shown(err)
}

func (k newKey) shown(err error) (result, error) {
	return result{k, func(env *environment) {
		owner := []any{k.Role, k.Name}
		if k.Role == "" {
			owner = []any{"integration", strings.TrimSpace(k.IntegrationID.String() + "  " + k.Name)}
		}
		env.table(owner, []any{"key", k.KeyID}, []any{"API key", k.APIKey}, []any{"expires", formatTime(k.ExpiresAt)})
		fmt.Fprintln(env.stdout, "The API key is shown this once; keep it safe.")
	}}, err
}

func (k newKey) lost() string {
	return fmt.Sprintf("the API key could not be shown, and is lost: revoke it with `novelgate %s revoke %v`, and issue "+
		"another one", cmp.Or(k.Role, "key"), k.KeyID)
}
