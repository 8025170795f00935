package main

import (
	"context"

	"novelgate/commands/staff"
)

// AuthorCommand is `novelgate author …`.
type AuthorCommand struct {
	Link         AuthorLink         `cmd:"" help:"Attribute an author's comments, old and new, to a member of the host platform."`
	Unlink       AuthorUnlink       `cmd:"" help:"Attribute them to the partner platform again."`
	Block        AuthorBlock        `cmd:"" help:"Refuse an author's further comments."`
	Unblock      AuthorUnblock      `cmd:"" help:"Let a blocked author comment again."`
	HidePosts    AuthorHidePosts    `cmd:"" name:"hide-posts" help:"Hide all posts of an author that were received until now."`
	RestorePosts AuthorRestorePosts `cmd:"" name:"restore-posts" help:"End that. Posts that were hidden one by one stay hidden."`
	Erase        AuthorErase        `cmd:"" help:"Erase who an author is and what they wrote, for ever, from the log as well. Repeat it to erase what has come since."`
	Show         AuthorShow         `cmd:"" help:"Show an author and what was decided about them."`
	List         AuthorList         `cmd:"" help:"List the authors of an integration."`
}

// AuthorArg names an author.
type AuthorArg struct {
	IntegrationArg
	UUID string `arg:"" name:"uuid" help:"The partner's identifier of the author, exactly as on their comments; they need not have written any."`
}

// AuthorReason is why something is decided about an author.
type AuthorReason struct {
	Reason string `required:"" help:"Why, for the history."`
}

// AuthorLink is `novelgate author link`.
type AuthorLink struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
	Member string `arg:"" help:"The host platform's identifier of the member."`
	Reason string `help:"Why, for the history."`
}

// Run links the author.
func (c *AuthorLink) Run(in *invocation) error {
	return c.decide(in, c.DatabaseFlags, c.OutputFlags,
		func(ctx context.Context, s *staff.Staff, name staff.AuthorName) (staff.Author, error) {
			return s.LinkAuthor(ctx, name, c.Member, c.Reason)
		})
}

// AuthorUnlink is `novelgate author unlink`.
type AuthorUnlink struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
	Reason string `help:"Why, for the history."`
}

// Run ends the link.
func (c *AuthorUnlink) Run(in *invocation) error {
	return c.decide(in, c.DatabaseFlags, c.OutputFlags,
		func(ctx context.Context, s *staff.Staff, name staff.AuthorName) (staff.Author, error) {
			return s.UnlinkAuthor(ctx, name, c.Reason)
		})
}

// AuthorBlock is `novelgate author block`.
type AuthorBlock struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
	AuthorReason
}

// Run blocks the author.
func (c *AuthorBlock) Run(in *invocation) error {
	return c.decide(in, c.DatabaseFlags, c.OutputFlags,
		func(ctx context.Context, s *staff.Staff, name staff.AuthorName) (staff.Author, error) {
			return s.BlockAuthor(ctx, name, c.Reason)
		})
}

// AuthorUnblock is `novelgate author unblock`.
type AuthorUnblock struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
	AuthorReason
}

// Run unblocks the author.
func (c *AuthorUnblock) Run(in *invocation) error {
	return c.decide(in, c.DatabaseFlags, c.OutputFlags,
		func(ctx context.Context, s *staff.Staff, name staff.AuthorName) (staff.Author, error) {
			return s.UnblockAuthor(ctx, name, c.Reason)
		})
}

// AuthorHidePosts is `novelgate author hide-posts`.
type AuthorHidePosts struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
	AuthorReason
}

// Run hides what the author has written.
func (c *AuthorHidePosts) Run(in *invocation) error {
	return c.decide(in, c.DatabaseFlags, c.OutputFlags,
		func(ctx context.Context, s *staff.Staff, name staff.AuthorName) (staff.Author, error) {
			return s.HideAuthorPosts(ctx, name, c.Reason)
		})
}

// AuthorRestorePosts is `novelgate author restore-posts`.
type AuthorRestorePosts struct {
	DatabaseFlags
	OutputFlags
	AuthorArg
	AuthorReason
}

// Run restores what the author has written.
func (c *AuthorRestorePosts) Run(in *invocation) error {
	return c.decide(in, c.DatabaseFlags, c.OutputFlags,
		func(ctx context.Context, s *staff.Staff, name staff.AuthorName) (staff.Author, error) {
			return s.RestoreAuthorPosts(ctx, name, c.Reason)
		})
}

// decide finds the integration, carries a command out and prints the author that it is about.
func (a *AuthorArg) decide(
	in *invocation, db DatabaseFlags, out OutputFlags,
	command func(context.Context, *staff.Staff, staff.AuthorName) (staff.Author, error),
) error {
	return db.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Integration(in.ctx, a.Integration)
		if err != nil {
			return err
		}
		decided, err := command(in.ctx, s, staff.AuthorName{IntegrationID: found.ID, ExternalUUID: a.UUID})
		if err != nil {
			return err
		}
		return out.print(in, decided, func() { printAuthors(in, decided) })
	})
}

func printAuthors(in *invocation, list ...staff.Author) {
	rows := make([][]any, len(list))
	for i, a := range list {
		rows[i] = []any{
			a.ExternalUUID, orDash(a.DisplayName), orDash(a.MemberID), yesNo(a.Blocked), moment(a.PostsHiddenUntil),
			moment(a.FirstSeenAt),
		}
	}
	in.table([]any{"UUID", "NAME", "MEMBER", "BLOCKED", "POSTS HIDDEN UNTIL", "FIRST SEEN"}, rows)
}
