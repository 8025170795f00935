package archive

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/encoding/charmap"

	"novelgate/client"
	"novelgate/commands/request"
	"novelgate/internal/problem"
)

// table is the form of a file of CSV.
type table struct {
	begin     int64            // after a byte order mark
	comma     rune             // between cells
	page      *charmap.Charmap // nil for UTF-8
	heading   []string         // as in the file
	members   []string         // the member of each column: "key" for the idempotency key, "" for one that is ignored
	ignored   string           // the columns that are ignored, for people
	operation client.Operation
}

func (t *table) reader(from io.Reader) *csv.Reader {
	r := csv.NewReader(from)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = t.comma, -1, true
	return r
}

// readHeading finds out the form of a file by its first row.
func (t *table) readHeading(from io.ReaderAt, o Options) (err error) {
	start := make([]byte, len(byteOrderMark))
	if n, _ := from.ReadAt(start, 0); bytes.Equal(start[:n], byteOrderMark) { // an error comes again below
		t.begin = int64(n)
	} else if o.Encoding != "utf-8" {
		if t.page, err = codePage(o.Encoding); err != nil {
			return err
		}
	}
	commas := []rune{',', ';', '\t'}
	switch only, size := utf8.DecodeRuneInString(o.Delimiter); {
	case o.Delimiter == "tab":
		commas = []rune{'\t'}
	case o.Delimiter != "" && (size < len(o.Delimiter) || strings.ContainsRune("\"\r\n\ufffd", only)):
		return fmt.Errorf("the delimiter must be one character or tab, not %q", o.Delimiter)
	case o.Delimiter != "":
		commas = []rune{only}
	}
	var invalid error
	for _, comma := range commas {
		attempt := table{comma: comma}
		cells, err := attempt.reader(io.NewSectionReader(from, t.begin, 1<<20)).Read()
		if errors.Is(err, io.EOF) {
			return errors.New("has no lines")
		}
		if invalid = err; err == nil && len(cells) > len(t.heading) {
			t.comma, t.heading = comma, slices.Clone(cells)
		}
	}
	if t.heading == nil {
		return fmt.Errorf("the names of columns are not valid CSV: %w", invalid)
	}
	t.operation = o.Operation
	return t.findMembers(o.Map)
}

func codePage(name string) (*charmap.Charmap, error) {
	for _, known := range charmap.All {
		page, ok := known.(*charmap.Charmap)
		if ok && strings.EqualFold(strings.ReplaceAll(page.String(), " ", "-"), name) {
			return page, nil
		}
	}
	return nil, fmt.Errorf("the encoding %q is unknown: use utf-8 or a code page such as windows-1252", name)
}

// decode returns a cell as UTF-8.
func (t *table) decode(cell string) (string, error) {
	if t.page == nil && utf8.ValidString(cell) {
		return cell, nil
	}
	if t.page != nil {
		text, err := t.page.NewDecoder().String(cell)
		if err == nil && !strings.ContainsRune(text, utf8.RuneError) {
			return text, nil
		}
		return "", fmt.Errorf("%q is not text in %s", cell, t.page)
	}
	return "", fmt.Errorf("%q is not UTF-8: save the file as UTF-8, or say what it is, as with --encoding windows-1252",
		cell)
}

// findMembers finds the member of each column.
func (t *table) findMembers(renamed map[string]string) error {
	body, required := request.PostMembers, []string{"key", "uuid", "username", "novel", "content"}
	if t.operation == client.OperationNovels {
		body, required = request.NovelMembers, []string{"key", "novel"}
	}
	known := append([]string{"key"}, body...)
	member := func(name string) string {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, strings.TrimSpace(name)) })
		if i < 0 {
			return ""
		}
		return known[i]
	}
	columns := make([]string, len(t.heading))
	for i, cell := range t.heading {
		name, err := t.decode(cell)
		if err != nil {
			return fmt.Errorf("line 1, column %d: %w", i+1, err)
		}
		columns[i] = strings.TrimSpace(name)
	}
	t.members = make([]string, len(columns))
	for column, to := range renamed {
		i := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, strings.TrimSpace(column)) })
		if i < 0 {
			return fmt.Errorf("there is no column %q, only %q", column, columns)
		}
		if t.members[i] = member(to); t.members[i] == "" {
			return fmt.Errorf("%q is no member of %s: they are %s", to, t.operation, strings.Join(known, ", "))
		}
	}
	var ignored []string
	for i, column := range columns {
		if t.members[i] == "" {
			t.members[i] = member(column)
		}
		switch first := slices.Index(t.members, t.members[i]); {
		case t.members[i] == "" && column != "" && column != errorColumn:
			ignored = append(ignored, column)
		case t.members[i] != "" && first < i:
			return fmt.Errorf("the columns %q and %q are both the member %q", columns[first], column, t.members[i])
		}
	}
	required = slices.DeleteFunc(required, func(r string) bool { return slices.Contains(t.members, r) })
	if len(required) > 0 {
		return fmt.Errorf("no column is %s: give its name, as with --map COLUMN=%s; the columns are %q",
			strings.Join(required, ", nor "), required[0], columns)
	}
	t.ignored = strings.Join(ignored, ", ")
	return nil
}

// line returns a row as a line of NDJSON, without the members whose cell is empty. Genres are separated by semicolons.
func (t *table) line(cells []string) ([]byte, error) {
	line, body := map[string]any{"operation": t.operation}, map[string]any{}
	if n := len(t.members); len(cells) < n || strings.Join(cells[n:], "") != "" {
		return nil, problem.MalformedBody(fmt.Sprintf("The row has %d cells, but the heading has %d.", len(cells), n))
	}
	for i, member := range t.members {
		switch value := cells[i]; {
		case value == "" || member == "":
		case member == "key":
			line["idempotencyKey"] = value
		case member == "chapterNumber" && jsontext.Value(value).IsValid():
			body[member] = jsontext.Value(value)
		case member == "genres":
			body[member] = strings.Split(value, ";")
		default:
			body[member] = value
		}
	}
	line["body"] = body
	return json.Marshal(line, json.Deterministic(true))
}
