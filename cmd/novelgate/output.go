package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// OutputFlags choose between output for people and for programs.
type OutputFlags struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// print writes value as JSON, or calls people.
func (f OutputFlags) print(in *invocation, value any, people func()) error {
	if !f.JSON {
		people()
		return nil
	}
	if err := json.MarshalWrite(in.stdout, value, jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	fmt.Fprintln(in.stdout)
	return nil
}

// table writes rows in aligned columns.
func (in *invocation) table(header []any, rows [][]any) {
	w := tabwriter.NewWriter(in.stdout, 0, 0, 2, ' ', 0)
	for _, row := range append([][]any{header}, rows...) {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, printable(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	}
	w.Flush() //nolint:errcheck // there is nobody to tell
}

// moment prints a time for people, "-" for none.
func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// printable escapes what a terminal would act on: titles come from partners.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}
