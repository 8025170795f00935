package main

import (
	"fmt"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"novelgate/aggregates/person"
	"novelgate/commands/staff"
)

// PersonCommand is `novelgate staff …` and `novelgate auditor …`; its role is the name of the command.
type PersonCommand struct {
	Create PersonCreate `cmd:"" help:"Issue an API key to a person. They may have several."`
	List   PersonList   `cmd:"" help:"List the keys."`
	Revoke PersonRevoke `cmd:"" help:"Make a key open nothing any more, within a second everywhere."`
}

// role is that of the persons which a command is about.
type role string

// AfterApply tells the command below who it is about; kong calls it.
func (c *PersonCommand) AfterApply(ctx *kong.Context) error { //nolint:unparam // kong wants an error
	for _, node := range ctx.Path {
		if node.Command != nil && (node.Command.Name == person.Staff || node.Command.Name == person.Auditor) {
			ctx.Bind(role(node.Command.Name))
		}
	}
	return nil
}

// PersonCreate is `novelgate staff create` and `novelgate auditor create`.
type PersonCreate struct {
	DatabaseFlags
	OutputFlags
	LifetimeFlag
	Name string `arg:"" help:"Name of the person, as the history will show it."`
}

// issuedToPerson is the JSON of a person's new key.
type issuedToPerson struct {
	KeyID     uuid.UUID  `json:"keyId"`
	Role      string     `json:"role"`
	Name      string     `json:"name"`
	APIKey    string     `json:"apiKey"`
	Prefix    string     `json:"prefix"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

// Run issues the key and prints it, this once.
func (c *PersonCreate) Run(in *invocation, of role) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		key, secret, err := s.IssuePersonKey(in.ctx, string(of), c.Name, time.Duration(c.ExpiresIn))
		if err != nil {
			return fmt.Errorf("issue key: %w", err)
		}
		return c.print(in, issuedToPerson{key.ID, key.Role, key.Name, secret.Reveal(), key.Prefix, key.ExpiresAt}, func() {
			fmt.Fprintf(in.stdout,
				"%-7s  %s\nkey      %s\nAPI key  %s\nexpires  %s\nThe API key is shown this once; keep it safe.\n",
				key.Role, printable(key.Name), key.ID, secret.Reveal(), moment(key.ExpiresAt))
		})
	})
}

// PersonList is `novelgate staff list` and `novelgate auditor list`.
type PersonList struct {
	DatabaseFlags
	OutputFlags
}

// Run prints keys, never their secrets.
func (c *PersonList) Run(in *invocation, of role) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		list, err := s.PersonKeys(in.ctx, string(of))
		if err != nil {
			return err
		}
		return c.print(in, list, func() { printPersonKeys(in, list...) })
	})
}

// PersonRevoke is `novelgate staff revoke` and `novelgate auditor revoke`.
type PersonRevoke struct {
	DatabaseFlags
	OutputFlags
	KeyID  uuid.UUID `arg:"" name:"key-id" help:"Id of the key, as list shows it."`
	Reason string    `help:"Why, for the history."`
}

// Run revokes the key.
func (c *PersonRevoke) Run(in *invocation, of role) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		list, err := s.PersonKeys(in.ctx, string(of))
		if err != nil {
			return err
		}
		for _, key := range list {
			if key.ID != c.KeyID {
				continue
			}
			if key, err = s.RevokePersonKey(in.ctx, c.KeyID, c.Reason); err != nil {
				return fmt.Errorf("revoke key: %w", err)
			}
			return c.print(in, key, func() { printPersonKeys(in, key) })
		}
		return fmt.Errorf("revoke key: %w of role %s", person.ErrKeyNotFound, of)
	})
}

func printPersonKeys(in *invocation, list ...staff.PersonKey) {
	rows := make([][]any, len(list))
	for i, key := range list {
		rows[i] = []any{
			key.ID, key.Name, key.Prefix + "…", moment(&key.CreatedAt), moment(key.ExpiresAt), moment(key.RevokedAt),
			moment(key.LastUsedAt),
		}
	}
	in.table([]any{"KEY", "NAME", "PREFIX", "CREATED", "EXPIRES", "REVOKED", "LAST USED"}, rows)
}
