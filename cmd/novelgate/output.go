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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// streams are standard output and standard error.
type streams struct{ stdout, stderr io.Writer }

// logger logs to standard error, from a level on.
func (s streams) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: level}))
}

// output prints the result of a command as text or, with --json, as JSON.
type output struct {
	streams
	json bool
}

// print writes value as JSON, or calls text.
func (o *output) print(value any, text func()) error {
	if !o.json {
		text()
		return nil
	}
	if err := json.MarshalWrite(o.stdout, value, jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	fmt.Fprintln(o.stdout)
	return nil
}

// table writes rows in aligned columns. The first row is the heading.
func (s streams) table(rows [][]any) {
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, printable(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	}
	w.Flush() //nolint:errcheck // standard output failed, so no report is possible
}

// columns is a text table of items: a heading, and a row for each item.
type columns[T any] struct {
	heading []any
	row     func(T) []any
}

// print prints an item, or returns err.
func (c columns[T]) print(out *output, item T, err error) error {
	return c.printAs(out, item, []T{item}, err)
}

// printList prints a list of items, or returns err.
func (c columns[T]) printList(out *output, list []T, err error) error {
	return c.printAs(out, list, list, err)
}

func (c columns[T]) printAs(out *output, value any, list []T, err error) error {
	if err != nil {
		return err
	}
	return out.print(value, func() { c.table(out.streams, list...) })
}

func (c columns[T]) table(s streams, list ...T) {
	rows := [][]any{c.heading}
	for _, item := range list {
		rows = append(rows, c.row(item))
	}
	s.table(rows)
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

// progress returns a function that shows progress; nil if standard error is not a terminal.
func (s streams) progress(what, unit string) func(done, total int64) {
	if !isTerminal(s.stderr) {
		return nil
	}
	p := &progressDisplay{streams: s, now: time.Now, unit: unit}
	return func(done, total int64) { p.show(what, done, total) }
}

// lineInterval is the minimum time between lines of progress without a terminal.
const lineInterval = 10 * time.Second

// progressDisplay shows the progress of long work in phases: on a terminal a bar for each phase, otherwise a line every
// lineInterval.
type progressDisplay struct {
	streams
	now  clock
	unit string // of the counts

	phase   string
	begun   time.Time                // when counting began
	first   int64                    // count at that time; above 0 when an earlier attempt is continued
	done    int64                    // count now
	printed time.Time                // when the latest line was printed; zero before the first line of a phase
	bar     *progressbar.ProgressBar // of the phase; nil without a terminal
}

func (p *progressDisplay) show(phase string, done, total int64) {
	now := p.now()
	if p.phase == "" || done < p.done { // counting begins; a phase may continue the count of the previous one
		p.first, p.begun = done, now
	}
	p.done = done
	if phase != p.phase {
		p.end()
		p.phase, p.printed = phase, time.Time{}
		if isTerminal(p.stderr) {
			p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.stderr),
				progressbar.OptionSetDescription(phase), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
				progressbar.OptionSetItsString(p.unit), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
		}
	}
	switch {
	case p.bar != nil:
		if total > p.bar.GetMax64() {
			p.bar.ChangeMax64(total)
		}
		_ = p.bar.Set64(done) // a bar that fails does not stop the work
	case now.Sub(p.printed) >= lineInterval:
		p.printed = now
		fmt.Fprintln(p.stderr, p.line(now, total))
	}
}

// line returns the count, and the rate and the time left if they are known.
func (p *progressDisplay) line(now time.Time, total int64) string {
	line := fmt.Sprintf("%s: %d of %d %s", p.phase, p.done, total, p.unit)
	if rate := float64(p.done-p.first) / now.Sub(p.begun).Seconds(); p.done > p.first && rate > 0 {
		left := time.Duration(float64(total-p.done) / rate * float64(time.Second))
		line += fmt.Sprintf(", %.0f %s/s, %v left", rate, p.unit, left.Round(time.Second))
	}
	return line
}

// end clears the bar.
func (p *progressDisplay) end() {
	if p.bar != nil {
		_ = p.bar.Clear() // a bar that fails does not stop the work
	}
}
