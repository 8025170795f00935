package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/internal/problem"
)

type novelCommand struct {
	Publish novelPublish `cmd:"" help:"Make a title canonical: take over a partner's novel, or create an unknown one."`
	Edit    novelEdit    `cmd:"" help:"Change fields of a canonical novel."`
	Approve novelDecide  `cmd:"" help:"Approve a pending or rejected novel, or a title rejected before its first import."`
	Reject  novelDecide  `cmd:"" help:"Reject a novel, or a title before its first import; it cannot be imported then."`
	Show    novelShow    `cmd:"" help:"Show a novel with all its fields."`
	List    novelList    `cmd:"" help:"List novels."`
}

var novelColumns = columns[staff.Novel]{
	[]any{"NOVEL", "STATE", "OWNER", "TITLE"},
	func(n staff.Novel) []any { return []any{n.NovelID, n.State, n.Owner, n.Title} },
}

func printNovel(out *output, n staff.Novel, err error) error {
	if err != nil {
		return err
	}
	return out.print(n, func() {
		out.table([][]any{
			{"title", n.Title},
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

// TitleArg names a novel.
type TitleArg struct {
	CommonFlags
	Title string `arg:"" help:"Title; case and extra white space are ignored."`
}

// FieldFlags are the fields of a novel that staff may set. As JSON they are the body of an edit request.
type FieldFlags struct {
	Author        *string  `json:"author" placeholder:"NAME" help:"1 to 120 characters."`
	Synopsis      *string  `json:"synopsis" placeholder:"TEXT" help:"At most 5,000 characters; an empty text clears it."`
	CoverURL      *string  `json:"coverUrl" placeholder:"URL" help:"https, at most 2,000 characters."`
	Genre         []string `json:"-" sep:"none" placeholder:"GENRE" xor:"genres" help:"1 to 50 characters. Repeatable, at most 20 times. The genres replace the list."`
	NoGenres      bool     `json:"-" xor:"genres" help:"Clear the list of genres."`
	Language      *string  `json:"language" placeholder:"LANGUAGE" help:"At most 50 characters; an empty text clears it."`
	ReadingStatus *string  `json:"readingStatus" placeholder:"STATUS" help:"ongoing, completed or hiatus."`
}

// fields returns the fields, validated by the rules for requests.
func (f FieldFlags) fields() (novel.Fields, error) {
	body := struct {
		FieldFlags
		Genres *[]string `json:"genres"`
	}{FieldFlags: f}
	if len(f.Genre) > 0 || f.NoGenres {
		body.Genres = &f.Genre
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return novel.Fields{}, fmt.Errorf("encode fields: %w", err)
	}
	n, err := request.DecodeEdit(encoded)
	if refused, ok := errors.AsType[*problem.Error](err); ok {
		return novel.Fields{}, errors.New(refused.Detail)
	}
	return novel.Fields{
		Author: n.Author, Synopsis: n.Synopsis, CoverURL: n.CoverURL, Language: n.Language, ReadingStatus: n.ReadingStatus,
		Genres: n.Genres,
	}, err
}

type novelPublish struct {
	TitleArg
	FieldFlags
	OptionalReason
}

func (c *novelPublish) Run(ctx context.Context, env *env) error {
	fields, err := c.fields()
	if err != nil {
		return err
	}
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	n, err := s.PublishNovel(ctx, c.Title, fields, c.Reason)
	return printNovel(out, n, err)
}

type novelEdit struct {
	TitleArg
	FieldFlags
	OptionalReason
}

// Validate refuses a command without changes; kong calls it.
func (c *novelEdit) Validate() error {
	if f := c.FieldFlags; f.Author == nil && f.Synopsis == nil && f.CoverURL == nil && len(f.Genre) == 0 && !f.NoGenres &&
		f.Language == nil && f.ReadingStatus == nil {
		return errors.New("nothing to change: give --author, --synopsis, --cover-url, --genre, --no-genres, --language or " +
			"--reading-status")
	}
	return nil
}

func (c *novelEdit) Run(ctx context.Context, env *env) error {
	fields, err := c.fields()
	if err != nil {
		return err
	}
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	found, err := s.Novel(ctx, c.Title)
	if err != nil {
		return err
	}
	n, err := s.EditNovel(ctx, found.NovelID, fields, c.Reason)
	return printNovel(out, n, err)
}

type novelDecide struct {
	TitleArg
	RequiredReason
}

func (c *novelDecide) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	decide := s.ApproveNovel
	if env.verb == "reject" {
		decide = s.RejectNovel
	}
	n, err := decide(ctx, c.Title, c.Reason)
	return printNovel(out, n, err)
}

type novelShow struct{ TitleArg }

func (c *novelShow) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	n, err := s.Novel(ctx, c.Title)
	return printNovel(out, n, err)
}

type novelList struct {
	CommonFlags
	RowsFlag
	State *string `enum:"pending,approved,published,rejected,free" placeholder:"STATE" help:"pending, approved, published, rejected or free (no novel: a title that was rejected before its first import, and approved since)."`
}

func (c *novelList) Run(ctx context.Context, env *env) error {
	s, out, err := c.staff(ctx, env)
	if err != nil {
		return err
	}
	filter := staff.NovelFilter{Limit: c.Limit.readLimit()}
	if c.State != nil {
		filter.State = novel.State(*c.State)
	}
	list, err := s.ListNovels(ctx, filter)
	return novelColumns.printList(out, shown(out.streams, list, c.Limit), err)
}
