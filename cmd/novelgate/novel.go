package main

import (
	"errors"
	"fmt"
	"strings"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
)

// NovelCommand is `novelgate novel …`.
type NovelCommand struct {
	Publish NovelPublish `cmd:"" help:"Make a title canonical: adopt a partner's novel, or create an unknown title."`
	Edit    NovelEdit    `cmd:"" help:"Change fields of a canonical novel."`
	Approve NovelApprove `cmd:"" help:"Let a pending or rejected novel in, or a title that was rejected before anybody imported it."`
	Reject  NovelReject  `cmd:"" help:"Decline a novel, or a title that nobody has imported yet; it cannot be imported (again)."`
	Show    NovelShow    `cmd:"" help:"Show a novel with all of its fields."`
	List    NovelList    `cmd:"" help:"List novels."`
}

// TitleArg names a novel.
type TitleArg struct {
	Title string `arg:"" help:"Title; matches whatever its case and white space."`
}

// NovelPublish is `novelgate novel publish`.
type NovelPublish struct {
	DatabaseFlags
	OutputFlags
	TitleArg
	FieldFlags
	Reason string `help:"Why, for the history."`
}

// Run publishes the novel.
func (c *NovelPublish) Run(in *invocation) error {
	fields, err := c.fields()
	if err != nil {
		return err
	}
	return c.withStaff(in, func(s *staff.Staff) error {
		n, err := s.PublishNovelWith(in.ctx, c.Title, fields, c.Reason)
		return printNovel(in, c.OutputFlags, n, err)
	})
}

// NovelEdit is `novelgate novel edit`.
type NovelEdit struct {
	DatabaseFlags
	OutputFlags
	TitleArg
	FieldFlags
	Reason string `help:"Why, for the history."`
}

// Validate refuses to change nothing; kong calls it.
func (c *NovelEdit) Validate() error {
	if c.none() {
		return errors.New("nothing to change: give --author, --synopsis, --cover-url, --genre, --no-genres, --language or " +
			"--reading-status")
	}
	return nil
}

// Run changes the fields that were given.
func (c *NovelEdit) Run(in *invocation) error {
	fields, err := c.fields()
	if err != nil {
		return err
	}
	return c.withStaff(in, func(s *staff.Staff) error {
		found, err := s.Novel(in.ctx, c.Title)
		if err != nil {
			return err
		}
		n, err := s.EditNovel(in.ctx, found.NovelID, fields, c.Reason)
		return printNovel(in, c.OutputFlags, n, err)
	})
}

// NovelApprove is `novelgate novel approve`.
type NovelApprove struct {
	DatabaseFlags
	OutputFlags
	TitleArg
	Reason string `required:"" help:"Why, for the history."`
}

// Run approves the novel.
func (c *NovelApprove) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		n, err := s.ApproveNovel(in.ctx, c.Title, c.Reason)
		return printNovel(in, c.OutputFlags, n, err)
	})
}

// NovelReject is `novelgate novel reject`.
type NovelReject struct {
	DatabaseFlags
	OutputFlags
	TitleArg
	Reason string `required:"" help:"Why, for the history."`
}

// Run rejects the novel.
func (c *NovelReject) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		n, err := s.RejectNovel(in.ctx, c.Title, c.Reason)
		return printNovel(in, c.OutputFlags, n, err)
	})
}

// NovelShow is `novelgate novel show`.
type NovelShow struct {
	DatabaseFlags
	OutputFlags
	TitleArg
}

// Run prints the novel.
func (c *NovelShow) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		n, err := s.Novel(in.ctx, c.Title)
		return printNovel(in, c.OutputFlags, n, err)
	})
}

// NovelList is `novelgate novel list`.
type NovelList struct {
	DatabaseFlags
	OutputFlags
	RowsFlag
	State *string `enum:"pending,approved,published,rejected,free" placeholder:"STATE" help:"Only novels in this state: pending, approved, published, rejected or free (a title without a novel, no longer rejected)."`
}

// Run prints novels in the order of their titles.
func (c *NovelList) Run(in *invocation) error {
	return c.withStaff(in, func(s *staff.Staff) error {
		filter := staff.NovelFilter{Limit: c.Limit.sought()}
		if c.State != nil {
			filter.State = novel.State(*c.State)
		}
		list, err := s.ListNovels(in.ctx, filter)
		if err != nil {
			return err
		}
		list = shown(in, list, c.Limit)
		return c.print(in, list, func() {
			rows := make([][]any, len(list))
			for i, n := range list {
				rows[i] = []any{n.NovelID, n.State, n.Owner, n.Title}
			}
			in.table([]any{"NOVEL", "STATE", "OWNER", "TITLE"}, rows)
		})
	})
}

func printNovel(in *invocation, out OutputFlags, n staff.Novel, err error) error {
	if err != nil {
		return err
	}
	return out.print(in, n, func() {
		in.table([]any{"title", n.Title}, [][]any{
			{"novel", n.NovelID},
			{"state", n.State},
			{"owner", n.Owner},
			{"slug", n.Slug},
			{"author", n.Author},
			{"language", n.Language},
			{"status", n.ReadingStatus},
			{"genres", strings.Join(n.Genres, ", ")},
			{"cover", n.CoverURL},
			{"synopsis", fmt.Sprintf("%.200s", n.Synopsis)},
		})
	})
}
