package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"novelgate/commands/imports"
	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
	"novelgate/internal/problem"
)

type importCommand struct {
	OutputFlags
	Files     []string          `arg:"" type:"existingfile" help:"Files of NDJSON or CSV, together one import."`
	URL       string            `env:"NOVELGATE_URL" placeholder:"URL" help:"Address of the service."`
	Key       string            `env:"NOVELGATE_API_KEY" placeholder:"KEY" help:"API key of the integration."`
	DryRun    bool              `help:"Check every line with the rules of the service, and send nothing."`
	Report    string            `placeholder:"FILE" help:"Write the lines that failed to this file."`
	Again     bool              `help:"Import files again that were imported before. Lines that were stored are replays."`
	Format    string            `enum:"auto,ndjson,csv" default:"auto" placeholder:"ndjson|csv" help:"Format of the files (default: by their names)."`
	Operation string            `enum:"posts,novels" default:"posts" placeholder:"posts|novels" help:"Operation of the rows of CSV (default: ${default})."`
	Map       map[string]string `placeholder:"COLUMN=MEMBER" help:"Use a column of CSV as this member of the body, or as the idempotency key (COLUMN=key). Default: the member with the name of the column. Repeatable."`
}

// Validate refuses a command without an address or key; kong calls it.
func (c *importCommand) Validate() error {
	if !c.DryRun && (c.URL == "" || c.Key == "") {
		return errors.New("--url and --key are required, unless --dry-run is given")
	}
	return nil
}

// importResult is the result of an import, or of a check (--dry-run).
type importResult struct {
	Import   *imports.Import `json:"import,omitzero"` // nil for a check
	Lines    int64           `json:"lines"`
	Failed   int64           `json:"failed"`
	Problems []*remark       `json:"problems"` // of all lines that failed
	Warnings []*remark       `json:"warnings"`
}

// Run imports the files, or checks them. It fails when a line failed.
func (c *importCommand) Run(ctx context.Context, out *output, now clock) (err error) {
	report := io.Discard
	if c.Report != "" {
		if slices.ContainsFunc(c.Files, func(name string) bool { return sameFile(name, c.Report) }) {
			return errors.New("the report would replace a file that is imported")
		}
		file, err := os.Create(c.Report)
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		report = file
	}
	work := c.send
	if c.DryRun {
		work = c.check
	}
	done, err := work(ctx, out, now, report)
	if err != nil {
		return err
	}
	if err := out.print(done, func() { done.show(out) }); err != nil {
		return err
	}
	if done.Failed > 0 {
		return fmt.Errorf("%d of %d lines failed", done.Failed, done.Lines)
	}
	return nil
}

// sameFile reports whether two names denote the same file.
func sameFile(a, b string) bool {
	first, errFirst := os.Stat(a)
	second, errSecond := os.Stat(b)
	return errFirst == nil && errSecond == nil && os.SameFile(first, second)
}

func (i *importResult) show(out *output) {
	for _, text := range slices.Concat(summarize("failed", i.Problems), summarize("warning", i.Warnings)) {
		fmt.Fprintln(out.stderr, printable(text))
	}
	if i.Import == nil {
		out.table([][]any{{"lines", i.Lines}, {"failed", i.Failed}})
		return
	}
	out.table([][]any{
		{"import", i.Import.ID},
		{"state", i.Import.State},
		{"lines", i.Import.Lines},
		{"created", i.Import.Created},
		{"updated", i.Import.Updated},
		{"unchanged", i.Import.Unchanged},
		{"replayed", i.Import.Replayed},
		{"failed", i.Import.Failed},
		{"parent missing", i.Import.ParentMissing},
	})
}

// check parses the lines as the service does, and writes those that fail to report.
func (c *importCommand) check(ctx context.Context, _ *output, now clock, report io.Writer) (*importResult, error) {
	done := &importResult{Problems: []*remark{}, Warnings: []*remark{}}
	for line, err := range c.lines() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		done.Lines++
		parsed, err := imports.ParseLine(line.text, now(), func(ratelimit.Operation) error { return nil })
		at := remark{Line: done.Lines, place: line.place}
		for _, name := range parsed.Unknown() {
			done.Warnings = append(done.Warnings, at.withUnknownMember(&parsed, name))
		}
		if err != nil {
			done.Failed++
			done.Problems = append(done.Problems, at.withProblem(problem.From(err)))
			if _, err := report.Write(append(line.text, '\n')); err != nil {
				return nil, fmt.Errorf("write the report: %w", err)
			}
		}
	}
	return done, nil
}

// idempotencyKey returns a hash of the lines and of the flags that form them, so that the same command continues its
// import; with --again a random key. It also returns the number of lines.
func (c *importCommand) idempotencyKey(ctx context.Context) (key string, lines int64, err error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q\n", c.Format, c.Operation)
	for _, column := range slices.Sorted(maps.Keys(c.Map)) {
		fmt.Fprintf(hash, "%q %q\n", column, c.Map[column])
	}
	for line, err := range c.lines() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return "", 0, err
		}
		hash.Write(append(line.text, '\n'))
		lines++
	}
	if c.Again {
		return uuid.NewString(), lines, nil
	}
	return "files-" + hex.EncodeToString(hash.Sum(nil)), lines, nil
}

const (
	partBytes    = 8 << 20                // maximum size of an uploaded part, within the limit of the service
	pollInterval = 500 * time.Millisecond // between two reads of the state of an import
)

// send opens or continues an import and waits for its end. It writes the lines that failed to report.
func (c *importCommand) send(ctx context.Context, out *output, now clock, report io.Writer) (*importResult, error) {
	key, total, err := c.idempotencyKey(ctx)
	if err != nil {
		return nil, err
	}
	client := &importClient{base: strings.TrimRight(c.URL, "/"), key: c.Key, now: now, stderr: out.stderr}
	progress := &progressDisplay{streams: out.streams, now: now, unit: "lines"}
	defer progress.end()
	i, err := c.attempt(ctx, progress, client, key, total)
	for errors.Is(err, errSetBack) {
		fmt.Fprintln(out.stderr, "the service has lost a part of the import, which is sent again")
		i, err = c.attempt(ctx, progress, client, key, total)
	}
	if err != nil {
		return nil, err
	}
	if i.State != imports.Completed {
		return nil, fmt.Errorf("the import is %s: --again opens another one", i.State)
	}
	done := &importResult{Import: i, Lines: i.Lines, Failed: i.Failed, Problems: []*remark{}, Warnings: []*remark{}}
	if i.Failed > 0 {
		if err := client.pages(ctx, "/failed?limit=10000", func(page []byte) error {
			_, err := report.Write(page)
			return err
		}); err != nil {
			return nil, fmt.Errorf("write the report: %w", err)
		}
		if done.Problems, err = client.remarks(ctx, "status=failed"); err != nil {
			return nil, err
		}
	}
	if i.ParentMissing > 0 {
		if done.Warnings, err = client.remarks(ctx, "warning="+string(imports.ParentNotFound)); err != nil {
			return nil, err
		}
	}
	return done, c.locate(slices.Concat(done.Problems, done.Warnings))
}

// errSetBack means that the service has lost a part of the import, or all of it, as after a failover.
var errSetBack = errors.New("the import was set back")

// attempt opens or continues an import, sends the lines that it lacks, and waits for its end. It fails with errSetBack
// if the service loses a part of it meanwhile.
func (c *importCommand) attempt(
	ctx context.Context, progress *progressDisplay, client *importClient, key string, total int64,
) (*imports.Import, error) {
	var i imports.Import
	client.path = ""
	if _, err := client.do(ctx, http.MethodPost, "", nil, http.Header{"Idempotency-Key": {key}}, &i); err != nil {
		return nil, fmt.Errorf("open the import: %w", err)
	}
	client.path = "/" + i.ID.String()
	fmt.Fprintf(client.stderr, "import %s: %s, %d lines uploaded\n", i.ID, i.State, i.Lines)
	if i.State == imports.Open {
		sent, err := c.upload(ctx, client, i.Lines, func(stored int64) { progress.show("uploaded", stored, total) })
		if err != nil {
			return nil, err
		}
		if _, err := client.do(ctx, http.MethodPost, fmt.Sprint("/complete?lines=", sent), nil, nil, &i); err != nil {
			return nil, fmt.Errorf("complete the import: %w", setBack(err))
		}
	}
	for i.State == imports.Processing {
		progress.show("processed", i.Lines-i.Pending-i.Waiting, i.Lines)
		if !eventlog.Sleep(ctx, pollInterval) {
			return nil, fmt.Errorf("%w: the service continues the import; repeat the command to see its end", ctx.Err())
		}
		if _, err := client.do(ctx, http.MethodGet, "", nil, nil, &i); err != nil {
			return nil, fmt.Errorf("show the import: %w", setBack(err))
		}
	}
	if i.State == imports.Open { // a failover has undone its completion
		return nil, errSetBack
	}
	return &i, nil
}

// setBack adds errSetBack to an error that says that the import does not exist any more, or lacks lines.
func setBack(err error) error {
	if refused, ok := errors.AsType[*refusedError](err); ok &&
		(refused.Status == http.StatusNotFound || refused.ExpectedOffset != nil) {
		return fmt.Errorf("%w: %w", errSetBack, err)
	}
	return err
}

// upload sends the lines after the first stored ones, which the service already has. It returns the number of lines
// that are stored in the end, and calls show with the number that is stored after each part.
func (c *importCommand) upload(
	ctx context.Context, client *importClient, stored int64, show func(stored int64),
) (int64, error) {
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, fmt.Errorf("pack lines: %w", err)
	}
	p := &importPart{client: client, packer: packer, stored: stored, show: show}
	read := int64(0)
	for line, err := range c.lines() {
		if err != nil {
			return 0, err
		}
		if read++; read <= stored {
			continue
		}
		if err := p.add(ctx, line.text); err != nil {
			return 0, err
		}
	}
	err = p.send(ctx)
	return p.stored, err
}

// importPart is the part of an import that is uploaded next.
type importPart struct {
	client *importClient
	packer *zstd.Encoder
	show   func(stored int64)
	stored int64 // lines that the service has
	lines  [][]byte
	size   int // of the lines, in bytes
}

// add adds a line. It sends the part first if the line does not fit.
func (p *importPart) add(ctx context.Context, line []byte) error {
	if len(p.lines) == imports.MaxPartLines || len(p.lines) > 0 && p.size+len(line) > partBytes {
		if err := p.send(ctx); err != nil {
			return err
		}
	}
	p.lines, p.size = append(p.lines, line), p.size+len(line)+1
	return nil
}

// send sends the part, and then those of its lines that the service has not stored. It fails with errSetBack if the
// service has lost lines.
func (p *importPart) send(ctx context.Context) error {
	for len(p.lines) > 0 {
		body := p.packer.EncodeAll(append(bytes.Join(p.lines, []byte("\n")), '\n'), nil)
		next, err := p.client.put(ctx, p.stored, body)
		if err != nil {
			return err
		}
		if next < p.stored {
			return errSetBack
		}
		if all := p.stored + int64(len(p.lines)); next == p.stored || next > all {
			return fmt.Errorf("the import has %d lines after an upload of lines %d to %d: is another program uploading?",
				next, p.stored+1, all)
		}
		p.lines, p.stored = p.lines[next-p.stored:], next
		p.show(p.stored)
	}
	p.size = 0
	return nil
}
