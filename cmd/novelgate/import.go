package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"novelgate/client"
	"novelgate/internal/archive"
)

type importCommand struct {
	OutputFlags
	Files     []string         `arg:"" help:"Files in any order: CSV if the name ends with .csv, otherwise NDJSON, which may also have edits and withdrawals."`
	URL       string           `env:"NOVELGATE_URL" placeholder:"URL" help:"Address of the service."`
	Key       string           `env:"NOVELGATE_API_KEY" placeholder:"KEY" help:"API key of the integration."`
	DryRun    bool             `help:"Check all lines with the rules of the service, and send nothing."`
	Report    string           `placeholder:"FILE" help:"Write the lines that failed to this file; rows of CSV with a column error."`
	Operation client.Operation `enum:"posts,novels" default:"posts" placeholder:"posts|novels" help:"Operation of the rows of CSV (default: ${default})."`
	Delimiter string           `placeholder:"CHARACTER" help:"Delimiter of CSV: a character, or tab (default: comma, semicolon or tab, as the heading has)."`
	Encoding  string           `default:"utf-8" placeholder:"NAME" help:"Encoding of CSV: utf-8 or a code page such as windows-1252 (default: ${default})."`
}

// Validate refuses a command without an address or key; kong calls it.
func (c *importCommand) Validate() error {
	if !c.DryRun && (c.URL == "" || c.Key == "") {
		return errors.New("--url and --key are required, unless --dry-run is given")
	}
	return nil
}

// importResult is the result of an import, or of a check.
type importResult struct {
	Lines     int             `json:"lines"`
	Created   int             `json:"created"`
	Updated   int             `json:"updated"`   // also edits and withdrawals
	Unchanged int             `json:"unchanged"` // upserts of novels that the integration does not own, edits before later ones
	Replayed  int             `json:"replayed"`
	Failed    int             `json:"failed"`
	NotSent   int             `json:"notSent"` // or without an outcome, when an error has ended the import
	Problems  archive.Remarks `json:"problems"`
	Warnings  archive.Remarks `json:"warnings"`
}

// run imports the files, or checks them. It fails when a line failed.
func (c *importCommand) run(ctx context.Context, env *environment) error {
	options := archive.Options{Operation: c.Operation, Encoding: c.Encoding, Delimiter: c.Delimiter}
	read, err := archive.Read(ctx, c.Files, options, env.now(), env.progress("read", "bytes"))
	if err != nil {
		return err
	}
	defer read.Close()
	report, err := c.openReport(read)
	if err != nil {
		return err
	}
	done := &importResult{Lines: read.Len()}
	var stopped error
	if c.DryRun {
		read.WarnOfMissingParents()
	} else {
		stopped = c.send(ctx, env, read, done)
	}
	if report != nil {
		if err := errors.Join(read.WriteReport(report), report.Close()); err != nil {
			return errors.Join(stopped, fmt.Errorf("write the report: %w", err))
		}
	}
	done.Failed, done.Problems, done.Warnings = read.Problems.Count(), read.Problems, read.Warnings
	err = env.show(result{done, func(env *environment) { c.print(env, done) }}, nil)
	if done.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d lines failed", done.Failed, done.Lines))
	}
	return errors.Join(stopped, err)
}

// openReport creates the file of the report, before anything is sent.
func (c *importCommand) openReport(read *archive.Archive) (*os.File, error) {
	if c.Report == "" {
		return nil, nil
	}
	old, err := os.Stat(c.Report)
	if err == nil && slices.ContainsFunc(c.Files, func(name string) bool {
		read, err := os.Stat(name)
		return err == nil && os.SameFile(read, old)
	}) {
		return nil, errors.New("the report would replace a file that is imported")
	}
	if err := read.CheckReport(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(c.Report, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		err = file.Chmod(0o600) // it may have existed; what readers wrote is nobody else's
	}
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return file, nil
}

// maxSilence is the time without any outcome after which an import ends.
const maxSilence = 10 * time.Minute

// send sends the lines without a problem, and adds what became of them to result and read.
func (c *importCommand) send(
	ctx context.Context, env *environment, read *archive.Archive, result *importResult,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(fmt.Errorf("no outcome for %v", maxSilence)) })
	defer silence.Stop()
	service, err := client.New(c.URL, c.Key, client.WithRetryFunc(env.tellWaiting()))
	if err != nil {
		return err
	}
	progress := env.progress("sent", "lines")
	order := read.Order()
	result.NotSent = len(order)
	var unreadable error
	for outcome, err := range service.Bulk(ctx, func(yield func(client.Line) bool) {
		for _, i := range order {
			line, err := read.Line(i)
			if err != nil {
				unreadable = err
				return
			}
			if !yield(line) {
				return
			}
		}
	}) {
		if err != nil {
			return fmt.Errorf("%w; to continue, repeat the command: what is stored is not stored twice", err)
		}
		silence.Reset(maxSilence)
		result.NotSent--
		progress(int64(len(order)-result.NotSent), int64(len(order)))
		i := order[outcome.Index]
		switch refused := outcome.Err; {
		case refused != nil:
			field := ""
			if len(refused.Fields) > 0 {
				field = refused.Fields[0].Field
			}
			read.Fail(i, refused.Code, field, refused.Detail)
			continue
		case outcome.Mismatch:
			read.Fail(i, archive.Mismatch, "idempotencyKey",
				"The key was used before for another command, which stays in effect. This line was not stored.")
			continue
		case outcome.Replayed:
			result.Replayed++
		case outcome.Created:
			result.Created++
		case outcome.Updated, outcome.Applied:
			result.Updated++
		default:
			result.Unchanged++
		}
		if read.IsReply(i) && outcome.ParentPostID == nil {
			read.Warn(i, "parent_not_found", "parent_uuid", "The parent was not found; the comment is top-level.")
		}
	}
	return unreadable
}

// shownKinds is the maximum number of kinds of problems, and of kinds of warnings, that are printed.
const shownKinds = 20

func (c *importCommand) print(env *environment, r *importResult) {
	list := func(what string, kinds archive.Remarks) {
		for _, k := range kinds[:min(len(kinds), shownKinds)] {
			first := k.Remarks[0]
			fmt.Fprintln(env.stderr, printable(fmt.Sprintf("%s: %d × %s, first %s:%d: %s", what, k.Count, k.Code, first.File,
				first.Line, first.Detail)))
		}
		if more := len(kinds) - shownKinds; more > 0 {
			fmt.Fprintf(env.stderr, "%s: %d more kinds; --json shows all\n", what, more)
		}
	}
	list("failed", r.Problems)
	list("warning", r.Warnings)
	rows := [][]any{{"lines", r.Lines}, {"failed", r.Failed}}
	if !c.DryRun {
		rows = slices.Insert(rows, 1, []any{"created", r.Created}, []any{"updated", r.Updated},
			[]any{"unchanged", r.Unchanged}, []any{"replayed", r.Replayed})
		if r.NotSent > 0 {
			rows = append(rows, []any{"not sent", r.NotSent})
		}
	}
	env.table(rows...)
}
