package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"novelgate/commands/imports"
	"novelgate/commands/request"
	"novelgate/internal/problem"
)

// remark is a problem or a warning of a line.
type remark struct {
	Line int64 `json:"line"` // of the import, as in its results
	place
	Code   string `json:"code"`
	Field  string `json:"field,omitzero"` // the first invalid one, or the unknown one
	Detail string `json:"detail"`
}

// withProblem returns the remark with a problem.
func (r remark) withProblem(p *problem.Error) *remark {
	r.Code, r.Detail = string(p.Code), p.Detail
	if len(p.Fields) > 0 {
		r.Field = p.Fields[0].Field
	}
	return &r
}

// withUnknownMember returns the remark with a warning about a member of the body that the service ignores.
func (r remark) withUnknownMember(line *imports.Line, name string) *remark {
	r.Code, r.Field, r.Detail = string(imports.UnknownMember), name, fmt.Sprintf("%q is no member and is ignored.", name)
	nearest := request.NearestNovelMember
	if line.Post != nil {
		nearest = request.NearestPostMember
	}
	if known := nearest(name); known != "" {
		r.Detail = fmt.Sprintf("%q is no member and is ignored: is it %q?", name, known)
	}
	return &r
}

// remarks returns a remark, without its place, for each outcome that a query selects.
func (c *importClient) remarks(ctx context.Context, query string) ([]*remark, error) {
	found := []*remark{}
	err := c.pages(ctx, "/results?limit=10000&"+query, func(page []byte) error {
		for line := range bytes.Lines(page) {
			var r struct {
				Line     int64
				Warnings []imports.Warning
				Problem  *struct{ Code, Field, Detail string }
			}
			if err := json.Unmarshal(line, &r, json.MatchCaseInsensitiveNames(true)); err != nil {
				return err
			}
			if r.Problem != nil {
				found = append(found, &remark{Line: r.Line, Code: r.Problem.Code, Field: r.Problem.Field, Detail: r.Problem.Detail})
			} else {
				found = append(found, &remark{
					Line: r.Line, Code: string(imports.ParentNotFound), Detail: "The parent was not found; the comment is top-level.",
				})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the outcomes with %s: %w", query, err)
	}
	return found, nil
}

// locate sets the place of each remark: it finds the line of the import in the files. It sorts the remarks.
func (c *importCommand) locate(remarks []*remark) error {
	slices.SortFunc(remarks, func(a, b *remark) int { return cmp.Compare(a.Line, b.Line) })
	number := int64(0)
	for line, err := range c.lines() {
		if err != nil || len(remarks) == 0 {
			return err
		}
		number++
		for ; len(remarks) > 0 && remarks[0].Line == number; remarks = remarks[1:] {
			remarks[0].place = line.place
		}
	}
	return nil
}

// shownKinds is the maximum number of kinds of problems, and of kinds of warnings, that are printed.
const shownKinds = 20

// summarize returns a text for each kind of remark, with the number of such remarks and the first one. Remarks of one
// kind have the same code and field.
func summarize(what string, remarks []*remark) (texts []string) {
	type kind struct{ code, field string }
	counts := map[kind]int{}
	var firsts []*remark
	for _, r := range remarks {
		k := kind{r.Code, r.Field}
		if counts[k]++; counts[k] == 1 {
			firsts = append(firsts, r)
		}
	}
	for _, r := range firsts[:min(len(firsts), shownKinds)] {
		texts = append(texts, fmt.Sprintf("%s: %d × %s, first %s:%d: %s", what, counts[kind{r.Code, r.Field}], r.Code,
			r.File, r.FileLine, r.Detail))
	}
	if more := len(firsts) - shownKinds; more > 0 {
		texts = append(texts, fmt.Sprintf("%s: %d more kinds; --json shows all", what, more))
	}
	return texts
}
