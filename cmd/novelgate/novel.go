package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/internal/problem"
	"novelgate/internal/title"
)

type novelCommand struct {
	Publish struct {
		TitleArg
		FieldFlags
		OptionalReason
	} `cmd:"" help:"Make a title canonical: take over a partner's novel, or create an unknown one."`
	Edit    novelEdit     `cmd:"" help:"Change fields of a canonical novel."`
	Approve novelDecision `cmd:"" help:"Approve a pending or rejected novel, or a title rejected before its first import."`
	Reject  novelDecision `cmd:"" help:"Reject a novel, or a title before its first import; it cannot be imported then."`
	Show    TitleArg      `cmd:"" help:"Show a novel with all its fields and its latest events."`
	List    struct {
		StaffFlags
		RowsFlag
		State *string `enum:"pending,approved,published,rejected,free" placeholder:"STATE" help:"pending, approved, published, rejected or free (no novel: a title that was rejected before its first import, and approved since)."`
		Owner string  `placeholder:"OWNER" help:"Name or id of an integration, host (the host platform) or none (rejected before the first import)."`
		Text  string  `help:"Part of the title; case is ignored."`
	} `cmd:"" help:"List novels."`
}

// TitleArg names a novel.
type TitleArg struct {
	StaffFlags
	Title string `arg:"" help:"Title; case and extra white space are ignored."`
}

type novelDecision struct {
	TitleArg
	RequiredReason
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

// novelColumns returns the columns of novels. owners names the integrations; host and none are names themselves.
func novelColumns(owners map[uuid.UUID]string) columns[staff.Novel] {
	return columns[staff.Novel]{
		[]any{"STATE", "OWNER", "TITLE"},
		func(n staff.Novel) []any {
			id, _ := uuid.Parse(n.Owner) // uuid.Nil has no name
			return []any{n.State, cmp.Or(owners[id], n.Owner), n.Title}
		},
	}
}

func (c *novelCommand) run(ctx context.Context, env *environment) error {
	return env.answer(ctx, func(s staffService) (result, error) {
		switch env.verb {
		case "publish":
			fields, err := c.Publish.fields()
			if err != nil {
				return result{}, err
			}
			return shownNovel(ctx, s)(s.PublishNovel(ctx, c.Publish.Title, fields, c.Publish.Reason))
		case "edit":
			fields, err := c.Edit.fields()
			if err != nil {
				return result{}, err
			}
			found, err := s.Novel(ctx, c.Edit.Title)
			if err != nil {
				return result{}, err
			}
			return shownNovel(ctx, s)(s.EditNovel(ctx, found.NovelID, fields, c.Edit.Reason))
		case "approve":
			return shownNovel(ctx, s)(s.ApproveNovel(ctx, c.Approve.Title, c.Approve.Reason))
		case "reject":
			return shownNovel(ctx, s)(s.RejectNovel(ctx, c.Reject.Title, c.Reject.Reason))
		case "show":
			found, err := s.Novel(ctx, c.Show.Title)
			if err != nil {
				return result{}, err
			}
			return shownNovel(ctx, s)(s.NovelWithHistory(ctx, found.NovelID))
		default: // list
			filter := staff.NovelFilter{
				State: novel.State(textOf(c.List.State)), Owner: c.List.Owner, Text: c.List.Text, Limit: c.List.Limit.readLimit(),
			}
			if filter.Owner != "" && filter.Owner != staff.Host && filter.Owner != staff.NoOwner {
				owner, err := s.Integration(ctx, filter.Owner)
				if err != nil {
					return result{}, err
				}
				filter.Owner = owner.ID.String()
			}
			list, err := s.ListNovels(ctx, filter)
			if err != nil {
				return result{}, err
			}
			owners, err := integrationNames(ctx, s)
			return novelColumns(owners).list(within(env, c.List.Limit, list), err)
		}
	})
}

// shownNovel returns a function that shows a novel with the name of its owner.
func shownNovel(ctx context.Context, s staffService) func(n staff.Novel, err error) (result, error) {
	return func(n staff.Novel, err error) (result, error) {
		if id, isID := uuid.Parse(n.Owner); err == nil && isID == nil && n.OwnerName == "" {
			if owner, err := s.Integration(ctx, id.String()); err == nil {
				n.OwnerName = owner.Name
			}
		}
		return result{n, func(env *environment) { printNovel(env, n) }}, err
	}
}

func printNovel(env *environment, n staff.Novel) {
	env.table(
		[]any{"title", n.Title},
		[]any{"novel", n.NovelID},
		[]any{"state", n.State},
		[]any{"owner", named(n.OwnerName, n.Owner)},
		[]any{"slug", n.Slug},
		[]any{"author", n.Author},
		[]any{"language", n.Language},
		[]any{"status", n.ReadingStatus},
		[]any{"genres", strings.Join(n.Genres, ", ")},
		[]any{"cover", n.CoverURL},
		[]any{"synopsis", title.Clip(n.Synopsis, 200)},
	)
	printHistory(env, n.History)
}
