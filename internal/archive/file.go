package archive

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"novelgate/client"
	"novelgate/internal/problem"
)

// Options say how to read files.
type Options struct {
	Format string // ndjson, csv, or auto: csv for names that end with .csv

	// The rest is for CSV.
	Operation client.Operation  // of all rows
	Map       map[string]string // from the name of a column to that of a member, or to key
	Encoding  string            // utf-8, or the name of a code page such as windows-1252
	Delimiter string            // a character, tab, or "" for the one that the heading has most cells with
}

// file is an open file.
type file struct {
	*os.File
	size  int64
	isCSV bool
	table // of a file of CSV
}

// record is a line of NDJSON, or a row.
type record struct {
	offset int64
	size   int
	number int    // of the line where it begins
	text   []byte // as a line of NDJSON
	err    error  // why a row is none
}

var byteOrderMark = []byte("\ufeff")

func open(name string, options Options) (*file, error) {
	opened, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	f := &file{File: opened, isCSV: options.Format == "csv" ||
		options.Format == "auto" && strings.EqualFold(filepath.Ext(name), ".csv")}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no regular file: lines are read twice")
	}
	if err == nil {
		f.size = info.Size()
		if f.isCSV {
			err = f.readHeading(f.File, options)
		}
	}
	if err != nil {
		_ = f.Close() // it was only read from
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// records returns the records of a file without the empty ones. An error ends it.
func (f *file) records() iter.Seq2[record, error] {
	if f.isCSV {
		return f.rows
	}
	return func(yield func(record, error) bool) {
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
}

// trimmed returns a line without white space and byte order mark. Files that were joined have marks in the middle.
func trimmed(raw []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(raw, byteOrderMark)) }

// rows returns the rows of a file of CSV.
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
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
			r.number = wrong.StartLine
			r.err = problem.MalformedBody(fmt.Sprintf("The row up to line %d is not valid CSV: %v.", wrong.Line, wrong.Err))
		} else if err != nil {
			yield(record{}, err)
			return
		} else {
			r.number, _ = reader.FieldPos(0)
			if strings.Join(cells, "") == "" { // spreadsheets write such rows at the end
				continue
			}
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
