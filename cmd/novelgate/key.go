package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/internal/apikey"
)

// KeyCommand is `novelgate key …`.
type KeyCommand struct {
	Issue  KeyIssue  `cmd:"" help:"Issue one more API key to an integration."`
	Rotate KeyRotate `cmd:"" help:"Issue a key in the place of another, which works on for a while."`
	Revoke KeyRevoke `cmd:"" help:"Make a key open nothing any more, within a second everywhere."`
	List   KeyList   `cmd:"" help:"List keys, of one integration or of all."`
}

// KeyIssue is `novelgate key issue`.
type KeyIssue struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
	LifetimeFlag
}

// issued is the JSON of a new key.
type issued struct {
	KeyID         uuid.UUID  `json:"keyId"`
	IntegrationID uuid.UUID  `json:"integrationId"`
	APIKey        string     `json:"apiKey"`
	Prefix        string     `json:"prefix"`
	ExpiresAt     *time.Time `json:"expiresAt"`
}

// Run issues the key and prints it, this once.
func (c *KeyIssue) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, c.Integration)
		if err != nil {
			return err
		}
		key, secret, err := s.IssueKey(in.ctx, found.ID, time.Duration(c.ExpiresIn))
		if err != nil {
			return fmt.Errorf("issue key: %w", err)
		}
		return c.printIssued(in, key, secret)
	})
}

// printIssued shows a new key, this once.
func (f OutputFlags) printIssued(in *invocation, key staff.Key, secret apikey.Secret) error {
	return f.print(in, issued{key.ID, key.IntegrationID, secret.Reveal(), key.Prefix, key.ExpiresAt}, func() {
		fmt.Fprintf(in.stdout, "key      %s\nAPI key  %s\nexpires  %s\nThe API key is shown this once; keep it safe.\n",
			key.ID, secret.Reveal(), moment(key.ExpiresAt))
	})
}

// KeyRotate is `novelgate key rotate`.
type KeyRotate struct {
	DatabaseFlags
	OutputFlags
	KeyID   uuid.UUID     `arg:"" name:"key-id" help:"Id of the key, as key list shows it."`
	Overlap time.Duration `default:"24h" help:"How long the old key still works."`
}

// Help implements kong.HelpProvider.
func (*KeyRotate) Help() string {
	return `The old key never lives longer than it would have. The new one does not expire, also in the place of one that would have: for a
successor that does, issue a key with --expires-in and revoke the old one.`
}

// Run rotates the key and prints the new one, this once.
func (c *KeyRotate) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		key, secret, err := s.RotateKey(in.ctx, c.KeyID, c.Overlap)
		if err != nil {
			return fmt.Errorf("rotate key: %w", err)
		}
		return c.printIssued(in, key, secret)
	})
}

// KeyRevoke is `novelgate key revoke`.
type KeyRevoke struct {
	DatabaseFlags
	OutputFlags
	KeyID  uuid.UUID `arg:"" name:"key-id" help:"Id of the key, as key list shows it."`
	Reason string    `help:"Why, for the history."`
}

// Run revokes the key.
func (c *KeyRevoke) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		key, err := s.RevokeKey(in.ctx, c.KeyID, c.Reason)
		if err != nil {
			return fmt.Errorf("revoke key: %w", err)
		}
		return c.print(in, key, func() { printKeys(in, key) })
	})
}

// KeyList is `novelgate key list`.
type KeyList struct {
	DatabaseFlags
	OutputFlags
	Integration string `arg:"" optional:"" help:"Id or name of an integration; all without it."`
}

// Run prints keys, never their secrets.
func (c *KeyList) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		var of uuid.UUID
		if c.Integration != "" {
			found, err := s.Integration(in.ctx, c.Integration)
			if err != nil {
				return err
			}
			of = found.ID
		}
		list, err := s.Keys(in.ctx, of)
		if err != nil {
			return err
		}
		return c.print(in, list, func() { printKeys(in, list...) })
	})
}

func printKeys(in *invocation, list ...staff.Key) {
	rows := make([][]any, len(list))
	for i, key := range list {
		rows[i] = []any{
			key.ID, key.IntegrationID, key.Prefix + "…", moment(&key.CreatedAt), moment(key.ExpiresAt), moment(key.RevokedAt),
			moment(key.LastUsedAt),
		}
	}
	in.table([]any{"KEY", "INTEGRATION", "PREFIX", "CREATED", "EXPIRES", "REVOKED", "LAST USED"}, rows)
}
