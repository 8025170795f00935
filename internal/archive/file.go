package archive

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// Options say how to read files of CSV.
type Options struct {
	Operation client.Operation // of all rows
	Encoding  string           // utf-8, or the name of a code page such as windows-1252
	Delimiter string           // a character, or tab; "" is what the heading has: comma, semicolon or tab
}

// file is an open file. Its form is CSV if its name ends with .csv, otherwise NDJSON.
type file struct {
	*os.File
	size  int64
	isCSV bool

	// The rest is for CSV.
	begin     int64            // after a byte order mark
	comma     rune             // between cells
	page      *charmap.Charmap // nil for UTF-8
	heading   []string         // as in the file
	members   []string         // the member of each column: "key" for the idempotency key, "" for one that is ignored
	ignored   string           // the columns that are ignored, for people
	operation client.Operation
}

// record is a line of NDJSON, or a row.
type record struct {
	offset int64
	size   int    // in bytes
	number int    // of the line where it begins, counted as an editor does
	text   []byte // as a line of NDJSON
	err    error  // why a row is none
}

var byteOrderMark = []byte("\ufeff")

func open(name string, options Options) (*file, error) {
	opened, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	f := &file{File: opened, isCSV: strings.EqualFold(filepath.Ext(name), ".csv"), operation: options.Operation}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no regular file: lines are read twice")
	}
	if err == nil {
		f.size = info.Size()
		if f.isCSV {
			err = f.readHeading(options)
		}
	}
	if err != nil {
		_ = f.Close() // it was only read from
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// readHeading finds out the form of a file of CSV by its first row.
func (f *file) readHeading(options Options) (err error) {
	commas := []rune{',', ';', '\t'}
	if options.Delimiter == "tab" {
		commas = commas[2:]
	} else if options.Delimiter != "" {
		if commas = []rune(options.Delimiter); len(commas) > 1 || strings.ContainsRune("\"\r\n\ufffd", commas[0]) {
			return fmt.Errorf("the delimiter must be one character or tab, not %q", options.Delimiter)
		}
	}
	start := make([]byte, len(byteOrderMark))
	if n, _ := f.ReadAt(start, 0); bytes.Equal(start[:n], byteOrderMark) { // an error comes again below
		f.begin = int64(n)
	} else if options.Encoding != "utf-8" {
		if f.page, err = codePage(options.Encoding); err != nil {
			return err
		}
	}
	var comma rune // the one with most cells
	var invalid error
	for _, f.comma = range commas {
		cells, err := f.reader(io.NewSectionReader(f, f.begin, 1<<20)).Read()
		if errors.Is(err, io.EOF) {
			return errors.New("has no lines")
		}
		if invalid = err; err == nil && len(cells) > len(f.heading) {
			comma, f.heading = f.comma, slices.Clone(cells)
		}
	}
	if f.comma = comma; f.heading == nil {
		return fmt.Errorf("the names of columns are not valid CSV: %w", invalid)
	}
	return f.findMembers()
}

func codePage(name string) (*charmap.Charmap, error) {
	for _, known := range charmap.All {
		page, ok := known.(*charmap.Charmap)
		if !ok {
			continue
		}
		// Such as windows-1252 or cp1252, ISO-8859-15, cp850.
		title := strings.NewReplacer("IBM Code Page ", "cp", " ", "-").Replace(page.String())
		if strings.EqualFold(title, name) || strings.EqualFold(strings.Replace(title, "Windows-", "cp", 1), name) {
			return page, nil
		}
	}
	return nil, fmt.Errorf("the encoding %q is unknown: use utf-8 or a code page such as windows-1252", name)
}

// findMembers finds the member of each column.
func (f *file) findMembers() error {
	body, required := request.PostMembers, []string{"key", "uuid", "username", "novel", "content"}
	if f.operation == client.OperationNovels {
		body, required = request.NovelMembers, []string{"key", "novel"}
	}
	known := append([]string{"key"}, body...)
	f.members = make([]string, len(f.heading))
	var ignored []string
	for i, cell := range f.heading {
		column, err := f.decode(cell)
		if err != nil {
			return fmt.Errorf("line 1, column %d: %w", i+1, err)
		}
		column = strings.TrimSpace(column)
		at := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, column) })
		switch {
		case at >= 0:
			if first := slices.Index(f.members, known[at]); first >= 0 {
				return fmt.Errorf("the columns %q and %q are both the member %q", f.heading[first], cell, known[at])
			}
			f.members[i] = known[at]
		case column != "" && column != errorColumn:
			ignored = append(ignored, column)
		}
	}
	required = slices.DeleteFunc(required, func(r string) bool { return slices.Contains(f.members, r) })
	if len(required) > 0 {
		return fmt.Errorf("no column is %s: name the columns in the first row, which is %q",
			strings.Join(required, ", nor "), f.heading)
	}
	f.ignored = strings.Join(ignored, ", ")
	return nil
}

func (f *file) reader(from io.Reader) *csv.Reader {
	r := csv.NewReader(from)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = f.comma, -1, true
	return r
}

// decode returns a cell as UTF-8.
func (f *file) decode(cell string) (string, error) {
	if f.page != nil {
		text, err := f.page.NewDecoder().String(cell)
		if err != nil || strings.ContainsRune(text, utf8.RuneError) {
			return "", fmt.Errorf("%q is not text in %s", cell, f.page)
		}
		return text, nil
	}
	if !utf8.ValidString(cell) {
		return "", fmt.Errorf("%q is not UTF-8: save the file as UTF-8, or say what it is, as with --encoding windows-1252",
			cell)
	}
	return cell, nil
}

// records yields the records of a file without the empty ones. An error ends it.
func (f *file) records(yield func(record, error) bool) {
	if f.isCSV {
		f.rows(yield)
		return
	}
	reader, r := bufio.NewReaderSize(io.NewSectionReader(f, 0, f.size), 1<<16), record{}
	for {
		raw, err := reader.ReadBytes('\n')
		r.offset, r.size, r.number = r.offset+int64(r.size), len(raw), r.number+1
		if r.text = trimmed(raw); len(r.text) > 0 && !yield(r, nil) {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				yield(record{}, err)
			}
			return
		}
	}
}

// trimmed returns a line without white space and byte order mark. Files that were joined have marks in the middle.
func trimmed(raw []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(raw, byteOrderMark)) }

// rows yields the rows of a file of CSV.
func (f *file) rows(yield func(record, error) bool) {
	reader := f.reader(io.NewSectionReader(f, f.begin, f.size-f.begin))
	_, _ = reader.Read() // the heading, which was checked
	for {
		r := record{offset: f.begin + reader.InputOffset()}
		cells, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		r.size = int(f.begin + reader.InputOffset() - r.offset)
		wrong, isWrong := errors.AsType[*csv.ParseError](err)
		switch {
		case isWrong:
			r.number = wrong.StartLine
			r.err = problem.MalformedBody(fmt.Sprintf("The row up to line %d is not valid CSV: %v.", wrong.Line, wrong.Err))
		case err != nil:
			yield(record{}, err)
			return
		case strings.Join(cells, "") == "": // spreadsheets write such rows at the end
			continue
		default:
			r.number, _ = reader.FieldPos(0)
			for i, cell := range cells {
				if cells[i], err = f.decode(cell); err != nil {
					at, column := reader.FieldPos(i)
					yield(record{}, fmt.Errorf("line %d, column %d: %w", at, column, err))
					return
				}
			}
			r.text, r.err = f.line(cells)
		}
		if !yield(r, nil) {
			return
		}
	}
}

// line returns a row as a line of NDJSON, without the members whose cell is empty. Genres are separated by semicolons.
func (f *file) line(cells []string) ([]byte, error) {
	line, body := map[string]any{"operation": f.operation}, map[string]any{}
	if n := len(f.members); len(cells) < n || strings.Join(cells[n:], "") != "" {
		return nil, problem.MalformedBody(fmt.Sprintf("The row has %d cells, but the heading has %d.", len(cells), n))
	}
	for i, member := range f.members {
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

// raw reads the bytes of a line again.
func (f *file) raw(l line) ([]byte, error) {
	raw := make([]byte, l.size)
	_, err := f.ReadAt(raw, l.offset)
	return raw, err
}

// textOf reads a line again as a line of NDJSON.
func (f *file) textOf(l line) ([]byte, error) {
	raw, err := f.raw(l)
	if err != nil || !f.isCSV {
		return trimmed(raw), err
	}
	cells, err := f.reader(bytes.NewReader(raw)).Read()
	for i := range cells {
		if err == nil {
			cells[i], err = f.decode(cells[i])
		}
	}
	if err != nil {
		return nil, err
	}
	return f.line(cells)
}
