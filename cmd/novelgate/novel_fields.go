package main

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/internal/problem"
)

// FieldFlags are the fields of a novel that staff may set.
type FieldFlags struct {
	Author        *string  `placeholder:"NAME" help:"1 to 120 characters."`
	Synopsis      *string  `placeholder:"TEXT" help:"At most 5,000 characters; an empty text clears it."`
	CoverURL      *string  `name:"cover-url" placeholder:"URL" help:"https, at most 2,000 characters."`
	Genre         []string `sep:"none" placeholder:"GENRE" xor:"genres" help:"1 to 50 characters, at most 20 of them; together they replace the list. Repeatable."`
	NoGenres      bool     `name:"no-genres" xor:"genres" help:"Clear the list of genres."`
	Language      *string  `placeholder:"LANGUAGE" help:"At most 50 characters; an empty text clears it."`
	ReadingStatus *string  `name:"reading-status" placeholder:"STATUS" help:"ongoing, completed or hiatus."`
}

// none reports whether no field was given.
func (f FieldFlags) none() bool {
	return f.Author == nil && f.Synopsis == nil && f.CoverURL == nil && len(f.Genre) == 0 && !f.NoGenres &&
		f.Language == nil && f.ReadingStatus == nil
}

// fieldsBody is what a request with these fields would send.
type fieldsBody struct {
	Author        *string   `json:"author"`
	Synopsis      *string   `json:"synopsis"`
	CoverURL      *string   `json:"coverUrl"`
	Genres        *[]string `json:"genres"`
	Language      *string   `json:"language"`
	ReadingStatus *string   `json:"readingStatus"`
}

// fields checks the flags by the rules for requests.
func (f FieldFlags) fields() (novel.Fields, error) {
	body := fieldsBody{f.Author, f.Synopsis, f.CoverURL, nil, f.Language, f.ReadingStatus}
	if len(f.Genre) > 0 || f.NoGenres {
		genres := append([]string{}, f.Genre...)
		body.Genres = &genres
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return novel.Fields{}, fmt.Errorf("encode fields: %w", err)
	}
	n, err := request.DecodeEdit(encoded)
	var refused *problem.Error
	if errors.As(err, &refused) {
		return novel.Fields{}, errors.New(refused.Detail) //nolint:err113 // for the person who has typed them
	}
	return novel.Fields{
		Author: n.Author, Synopsis: n.Synopsis, CoverURL: n.CoverURL, Language: n.Language, ReadingStatus: n.ReadingStatus,
		Genres: n.Genres,
	}, err
}
