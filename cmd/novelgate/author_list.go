package main

import (
	"fmt"

	"novelgate/commands/staff"
)

// AuthorShow is `novelgate author show`.
type AuthorShow struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
}

// authorWithHistory is the JSON of an author.
type authorWithHistory struct {
	staff.Author
	History []staff.HistoryEntry `json:"history"`
}

// Run prints the author.
func (c *AuthorShow) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, c.Integration)
		if err != nil {
			return err
		}
		name := staff.AuthorName{IntegrationID: found.ID, ExternalUUID: c.UUID}
		a, err := s.Author(in.ctx, name)
		if err != nil {
			return err
		}
		history, err := s.AuthorHistory(in.ctx, name)
		if err != nil {
			return err
		}
		return c.print(in, authorWithHistory{a, history}, func() {
			printAuthors(in, a)
			printHistory(in, history)
		})
	})
}

// AuthorList is `novelgate author list`.
type AuthorList struct {
	DatabaseFlags
	OutputFlags
	IntegrationArg
	Linked  string `enum:",true,false" default:"" placeholder:"true|false" help:"Only those who are linked to a member, or only those who are not."`
	Blocked string `enum:",true,false" default:"" placeholder:"true|false" help:"Only those who are blocked, or only those who are not."`
	Limit   int    `default:"100" help:"At most so many."`
}

// Run prints authors in the order of their identifiers.
func (c *AuthorList) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, c.Integration)
		if err != nil {
			return err
		}
		list, err := s.ListAuthors(in.ctx, staff.AuthorFilter{IntegrationID: found.ID, Linked: choice(c.Linked), Blocked: choice(c.Blocked), Limit: c.Limit + 1})
		if err != nil {
			return err
		}
		if len(list) > c.Limit {
			list = list[:c.Limit]
			fmt.Fprintf(in.stderr, "Only the first %d; --limit shows more.\n", c.Limit)
		}
		return c.print(in, list, func() { printAuthors(in, list...) })
	})
}

// choice is true or false, nil for neither.
func choice(text string) *bool {
	if text == "" {
		return nil
	}
	yes := text == "true"
	return &yes
}
