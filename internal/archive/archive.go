// Package archive reads the files of a bulk import: lines of NDJSON and rows of CSV. It checks them with the rules of
// the service, and orders them: upserts first, and comments before their replies.
//
// Read goes through all files once and keeps where each line is, not its text. The text is read again when the line is
// sent, or written to the report of lines that failed.
package archive

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"novelgate/client"
	"novelgate/commands/bulk"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/internal/problem"
)

// Archive is what files contain.
type Archive struct {
	// Problems are the lines that fail: those of Read, and what the caller adds.
	Problems Remarks
	// Warnings are possible mistakes in lines that do not fail.
	Warnings Remarks

	files   []*file
	lines   []line
	seed    maphash.Seed
	first   map[uint64]written // by the hash of a key
	authors map[uint64]written // by title: the first upsert with an author
}

// line is a line of a file, or a row.
type line struct {
	offset         int64
	size           int    // in bytes
	file           int    // in files
	number         int    // counted as an editor does
	parent         uint64 // the hash of the key of the parent, or of the comment that a change is of; 0 for none
	upsert, failed bool
	change         bool // an edit or a withdrawal
}

// Remark is a problem or a warning of a line.
type Remark struct {
	File   string `json:"file"`
	Line   int    `json:"line"` // counted from 1 as an editor does, with the heading of CSV and empty lines
	Detail string `json:"detail"`

	index int // of the line
}

// Kind are the remarks with the same code and field.
type Kind struct {
	Code    string   `json:"code"`
	Field   string   `json:"field,omitzero"` // the first invalid one, or the unknown one
	Count   int      `json:"count"`
	Remarks []Remark `json:"lines"` // the first maxWarnings of warnings, all problems
}

// maxWarnings limits memory: a member that the service does not know may be in each line.
const maxWarnings = 10_000

// Remarks are the kinds of problems or warnings, in the order of their first remark.
type Remarks []*Kind

func (r *Remarks) add(code, field string, limit int, remark Remark) {
	for _, k := range *r {
		if k.Code != code || k.Field != field {
			continue
		}
		if k.Count++; k.Count <= limit {
			k.Remarks = append(k.Remarks, remark)
		}
		return
	}
	*r = append(*r, &Kind{code, field, 1, []Remark{remark}})
}

// Count returns the number of remarks.
func (r Remarks) Count() (n int) {
	for _, k := range r {
		n += k.Count
	}
	return n
}

// Fail adds the problem of a line.
func (a *Archive) Fail(i int, code, field, detail string) {
	l := &a.lines[i]
	l.failed = true
	a.Problems.add(code, field, len(a.lines), Remark{a.files[l.file].Name(), l.number, detail, i})
}

// Warn adds a warning about a line.
func (a *Archive) Warn(i int, code, field, detail string) {
	l := &a.lines[i]
	a.Warnings.add(code, field, maxWarnings, Remark{a.files[l.file].Name(), l.number, detail, i})
}

// Len returns the number of lines.
func (a *Archive) Len() int { return len(a.lines) }

// Read reads files. It refuses, with a text for people, a file that it cannot read as a whole. now is the time against
// which timestamps are checked. progress is called with the bytes that are read.
func Read(
	ctx context.Context, names []string, options Options, now time.Time, progress func(done, total int64),
) (_ *Archive, err error) {
	a := &Archive{seed: maphash.MakeSeed(), first: map[uint64]written{}, authors: map[uint64]written{}}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	var done, total int64
	for _, name := range names {
		f, err := open(name, options)
		if err != nil {
			return nil, err
		}
		a.files, total = append(a.files, f), total+f.size
	}
	for i, f := range a.files {
		before := len(a.lines)
		if len(f.ignored) > 0 {
			a.Warnings.add("ignored_columns", f.ignored, 1,
				Remark{f.Name(), 1, "These columns are ignored: " + f.ignored + ".", before})
		}
		for record, err := range f.records {
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name(), err)
			}
			if len(a.lines)%1000 == 0 {
				progress(done+record.offset, total)
			}
			a.lines = append(a.lines, line{offset: record.offset, size: record.size, file: i, number: record.number})
			a.check(len(a.lines)-1, record, now)
		}
		if len(a.lines) == before {
			return nil, fmt.Errorf("%s has no lines", f.Name())
		}
		done += f.size
	}
	return a, nil
}

// Close closes the files.
func (a *Archive) Close() {
	for _, f := range a.files {
		_ = f.Close() // it was only read from
	}
}

// written is what the first line of a key, or the first upsert of a title, says.
type written struct {
	line int
	hash uint64 // of the command, or of the author
}

func (a *Archive) hash(operation ratelimit.Operation, key string) uint64 {
	return maphash.Comparable(a.seed, [2]string{string(operation), key})
}

// check checks the line with an index.
func (a *Archive) check(i int, r record, now time.Time) {
	var parsed bulk.Line
	err := r.err
	if err == nil {
		parsed, err = bulk.ParseLine(r.text, now, func(ratelimit.Operation) error { return nil })
	}
	var unknown []string
	switch {
	case parsed.Post != nil:
		unknown = parsed.Post.Unknown
	case parsed.Novel != nil:
		unknown = parsed.Novel.Unknown
	case parsed.Edit != nil:
		unknown = parsed.Edit.Unknown
	}
	for _, name := range unknown {
		a.Warn(i, "unknown_member", name, fmt.Sprintf("%q is no member and is ignored.", name))
	}
	if err != nil {
		p := problem.From(err)
		field, detail := "", p.Detail
		for n, f := range p.Fields { // Detail has only the first one
			if n == 0 {
				field, detail = f.Field, ""
			}
			detail += f.Field + ": " + f.Message + ". "
		}
		a.Fail(i, string(p.Code), field, strings.TrimSpace(detail))
		return
	}
	l := &a.lines[i]
	var canonical []byte
	switch l.upsert = parsed.Novel != nil; {
	case l.upsert:
		canonical = parsed.Novel.Canonical()
	case parsed.Post != nil:
		canonical = parsed.Post.Canonical()
		if parsed.Post.ParentKey != nil {
			l.parent = a.hash(ratelimit.Posts, *parsed.Post.ParentKey)
		}
	default: // a change, which comes after its comment as a reply after its parent
		canonical = request.WithdrawalCanonical(parsed.Comment)
		if parsed.Edit != nil {
			canonical = parsed.Edit.Canonical(parsed.Comment)
		}
		l.parent, l.change = a.hash(ratelimit.Posts, parsed.Comment), true
	}
	key, command := a.hash(parsed.Operation, parsed.Key), written{i, maphash.Bytes(a.seed, canonical)}
	if first, ok := a.first[key]; !ok {
		a.first[key] = command
	} else if first.hash != command.hash {
		a.Fail(i, Mismatch, "idempotencyKey", fmt.Sprintf("The key %s is that of %s, which is another command%s.",
			parsed.Key, a.place(first.line), spreadsheet(parsed.Key)))
		return
	}
	if l.upsert && parsed.Novel.Author != nil {
		title, author := a.hash("", parsed.Novel.FoldedTitle), written{i, maphash.String(a.seed, *parsed.Novel.Author)}
		if first, ok := a.authors[title]; !ok {
			a.authors[title] = author
		} else if first.hash != author.hash {
			a.Warn(i, "another_author", "", fmt.Sprintf("%q has another author in %s: the last one counts.",
				parsed.Novel.Title, a.place(first.line)))
		}
	}
}

// Mismatch is the code of a line whose key belongs to another command.
const Mismatch = "mismatch"

var shortened = regexp.MustCompile(`^\d([.,]\d+)?E\+\d+$`)

// spreadsheet explains a key that is the short form of a large number.
func spreadsheet(key string) string {
	if !shortened.MatchString(key) {
		return ""
	}
	return " (a spreadsheet has shortened the number: format the column as text before you export it)"
}

func (a *Archive) place(i int) string {
	return fmt.Sprintf("%s:%d", a.files[a.lines[i].file].Name(), a.lines[i].number)
}

// WarnOfMissingParents adds a warning for each reply whose parent, and each change whose comment, is in no line that
// can be stored.
func (a *Archive) WarnOfMissingParents() {
	for i, l := range a.lines {
		parent, ok := a.first[l.parent]
		switch {
		case l.parent == 0 || l.failed || ok && parent.line != i:
		case l.change:
			a.Warn(i, "comment_not_in_files", "post", "The comment is in no file, or its line failed. Unless it was sent "+
				"before, this line will fail.")
		default:
			a.Warn(i, "parent_not_in_files", "parent_uuid", "The parent is in no file, or its line failed. Unless it was "+
				"sent before, the reply becomes top-level, which cannot be changed afterwards.")
		}
	}
}

// Order returns the lines without a problem in the order in which to send them.
func (a *Archive) Order() []int {
	order := make([]int, 0, len(a.lines))
	for i, l := range a.lines {
		if l.upsert && !l.failed {
			order = append(order, i)
		}
	}
	placed := make([]bool, len(a.lines))
	var chain []int // a line and those of its ancestors that have no place yet
	for i, l := range a.lines {
		if l.upsert || l.failed {
			continue
		}
		for next, ok := (written{line: i}), true; ok && !placed[next.line]; {
			placed[next.line] = true // also ends a circle
			chain = append(chain, next.line)
			next, ok = a.first[a.lines[next.line].parent]
		}
		for ; len(chain) > 0; chain = chain[:len(chain)-1] {
			order = append(order, chain[len(chain)-1])
		}
	}
	return order
}

// IsReply reports whether a line is a comment that names a parent.
func (a *Archive) IsReply(i int) bool { return a.lines[i].parent != 0 && !a.lines[i].change }

// Line returns a line to send.
func (a *Archive) Line(i int) (client.Line, error) {
	l := a.lines[i]
	text, err := a.files[l.file].textOf(l)
	var sent struct {
		Operation      client.Operation `json:"operation"`
		IdempotencyKey string           `json:"idempotencyKey"`
		Post           string           `json:"post"`
		Body           jsontext.Value   `json:"body"`
	}
	if err == nil {
		err = json.Unmarshal(text, &sent, jsontext.AllowDuplicateNames(true))
	}
	if err != nil {
		return client.Line{}, fmt.Errorf("%s has changed since it was checked: %w", a.place(i), err)
	}
	return client.Line{Operation: sent.Operation, Key: sent.IdempotencyKey, Post: sent.Post, Body: sent.Body}, nil
}
