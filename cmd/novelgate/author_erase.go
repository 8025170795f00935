package main

import (
	"fmt"

	"github.com/google/uuid"

	"novelgate/commands/staff"
)

// AuthorErase is `novelgate author erase`.
type AuthorErase struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
	AuthorReason
	Vacuum bool `help:"Then free what the tables' files and statistics still hold of it (VACUUM), once the projections have applied the erasure; takes a while on large ones."`
}

// Run erases the author.
func (c *AuthorErase) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, c.Integration)
		if err != nil {
			return err
		}
		erased, err := s.EraseAuthor(in.ctx, staff.AuthorName{IntegrationID: found.ID, ExternalUUID: c.UUID}, c.Reason)
		if err != nil {
			return err
		}
		if err := warnOfRebuilds(in, s); err != nil {
			return err
		}
		if err := warnOfStopped(in, s, erased.AuthorID); err != nil {
			return err
		}
		if c.Vacuum {
			if err := vacuumErased(in.ctx, s, erased.AuthorID); err != nil {
				return err
			}
		}
		return c.print(in, erased, func() {
			in.table([]any{"author", erased.AuthorID},
				[][]any{{"comments", erased.Comments}, {"decisions", erased.Decisions}, {"erased", moment(&erased.ErasedAt)}})
			if !c.Vacuum {
				fmt.Fprintln(in.stdout,
					"What was there is in the files and statistics of the tables until they are vacuumed: --vacuum, or see "+
						"docs/security.md.")
			}
		})
	})
}

// warnOfRebuilds names what the erasure did not reach.
func warnOfRebuilds(in *invocation, s *staff.Staff) error {
	unfinished, err := s.UnfinishedRebuilds(in.ctx)
	if err != nil {
		return fmt.Errorf("the author is erased, but %w", err)
	}
	for _, name := range unfinished {
		fmt.Fprintf(in.stderr,
			"An unfinished rebuild of %[1]s keeps what was erased: `novelgate projection rebuild %[1]s` finishes it, "+
				"`novelgate projection discard %[1]s` drops it.\n", name)
	}
	return nil
}

// warnOfStopped names what shows the author until an operator intervenes.
func warnOfStopped(in *invocation, s *staff.Staff, authorID uuid.UUID) error {
	stopped, err := s.StoppedBefore(in.ctx, authorID)
	if err != nil {
		return fmt.Errorf("the author is erased, but %w", err)
	}
	for _, name := range stopped {
		fmt.Fprintf(in.stderr,
			"The projection %[1]s has stopped and shows what was erased until it goes on: `novelgate projection list` says "+
				"why, `novelgate projection retry %[1]s` tries again.\n", name)
	}
	return nil
}
