package main

import "novelgate/commands/staff"

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
	RowsFlag
	Linked  *string `enum:"true,false" placeholder:"true|false" help:"Only those who are linked to a member, or only those who are not."`
	Blocked *string `enum:"true,false" placeholder:"true|false" help:"Only those who are blocked, or only those who are not."`
}

// Run prints authors in the order of their identifiers.
func (c *AuthorList) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, c.Integration)
		if err != nil {
			return err
		}
		list, err := s.ListAuthors(in.ctx, staff.AuthorFilter{
			IntegrationID: found.ID, Linked: choice(c.Linked), Blocked: choice(c.Blocked), Limit: c.Limit.sought(),
		})
		if err != nil {
			return err
		}
		list = shown(in, list, c.Limit)
		return c.print(in, list, func() { printAuthors(in, list...) })
	})
}

// choice is true or false, nil for neither.
func choice(text *string) *bool {
	if text == nil {
		return nil
	}
	yes := *text == "true"
	return &yes
}
