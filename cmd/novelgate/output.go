package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"

	"novelgate/internal/database"
)

// logger logs to standard error, as text.
func (e *environment) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(e.stderr, logOptions(slog.LevelInfo)))
}

func logOptions(level slog.Level) *slog.HandlerOptions {
	return &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if err, ok := attr.Value.Any().(error); ok {
				attr.Value = slog.StringValue(database.ErrorText(err))
			}
			return attr
		},
	}
}

// output is standard output. It keeps the first error of a write, with which the command fails.
type output struct {
	io.Writer

	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("write to standard output: %w", err)
	}
	return n, err
}

// result is what a command prints: a value as JSON, or text.
type result struct {
	value any
	text  func(*environment)
}

// secret is a value that is shown once. lost says what to do if it could not be.
type secret interface{ lost() string }

// said returns a result with a sentence as its text.
func said(value any, err error, format string, values ...any) (result, error) {
	return result{value, func(env *environment) { fmt.Fprintf(env.stdout, format+"\n", values...) }}, err
}

// show prints the result of a command, or returns the error of the command.
func (e *environment) show(r result, err error) error {
	switch {
	case err != nil:
		return err
	case !e.json:
		r.text(e)
	default:
		if err := json.MarshalWrite(e.stdout, r.value, jsontext.WithIndent("  ")); err != nil && e.stdout.err == nil {
			return fmt.Errorf("print JSON: %w", err)
		}
		fmt.Fprintln(e.stdout)
	}
	if s, ok := r.value.(secret); ok && e.stdout.err != nil {
		return fmt.Errorf("%s: %w", s.lost(), e.stdout.err)
	}
	return e.stdout.err
}

// table writes rows in aligned columns. On a terminal it wraps the last column.
func (e *environment) table(rows ...[]any) {
	w := tabwriter.NewWriter(e.stdout, 0, 0, gap, ' ', 0)
	room := e.lastColumn(rows)
	for _, row := range rows {
		last := len(row) - 1
		for _, cell := range row[:last] {
			fmt.Fprint(w, printable(fmt.Sprint(cell)), "\t")
		}
		text := printable(fmt.Sprint(row[last]))
		if room > 0 && utf8.RuneCountInString(text) > room {
			text = strings.Join(wrap(text, room), "\n"+strings.Repeat("\t", last))
		}
		fmt.Fprintln(w, text)
	}
	w.Flush() //nolint:errcheck // e.stdout keeps the error
}

// gap is the number of blanks between two columns.
const gap = 2

// lastColumn returns the width that a terminal has for the last column of a table; 0 without a terminal.
func (e *environment) lastColumn(rows [][]any) int {
	if e.width == 0 {
		return 0
	}
	const least = 20
	var widths []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], gap+utf8.RuneCountInString(printable(fmt.Sprint(cell))))
		}
	}
	room := e.width
	for _, width := range widths {
		room -= width
	}
	return max(room, least)
}

// terminalWidth returns the number of columns of a stream that is a terminal, otherwise 0.
func terminalWidth(stream any) int {
	file, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// columns is a text table of items: a heading, and a row for each item.
type columns[T any] struct {
	heading []any
	row     func(T) []any
}

func (c columns[T]) one(item T, err error) (result, error) {
	return result{item, func(e *environment) { c.print(e, item) }}, err
}

func (c columns[T]) list(list []T, err error) (result, error) {
	return result{list, func(e *environment) {
		if len(list) == 0 {
			e.tellNone()
			return
		}
		c.print(e, list...)
	}}, err
}

// tellNone says on standard error that a list is empty, which a heading alone would leave open.
func (e *environment) tellNone() { fmt.Fprintln(e.stderr, "Nothing matches.") }

func (c columns[T]) print(e *environment, list ...T) {
	rows := [][]any{c.heading}
	for _, item := range list {
		rows = append(rows, c.row(item))
	}
	e.table(rows...)
}

// formatTime returns a time as text, "-" for none.
func formatTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// orDash returns the value of a pointer as text, "-" for nil.
func orDash[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// printable escapes unprintable characters, because partners choose titles.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// progressInterval is the time between lines of progress. Work that takes less prints none.
const progressInterval = 10 * time.Second

// progress returns a function that prints the progress of long work on standard error, with its rate and the time left.
func (e *environment) progress(what, unit string) func(done, total int64) {
	var begun, printed time.Time
	var first int64 // above 0 when an earlier attempt is continued
	return func(done, total int64) {
		now := e.now()
		if begun.IsZero() {
			first, begun, printed = done, now, now
		}
		if now.Sub(printed) < progressInterval {
			return
		}
		printed = now
		line := fmt.Sprintf("%s: %d of %d %s", what, done, total, unit)
		if rate := float64(done-first) / now.Sub(begun).Seconds(); rate > 0 {
			left := time.Duration(float64(total-done) / rate * float64(time.Second))
			line += fmt.Sprintf(", %.0f %s/s, %v left", rate, unit, left.Round(time.Second))
		}
		fmt.Fprintln(e.stderr, line)
	}
}
