package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"novelgate/commands/imports"
)

// place is where a line begins. FileLine counts like an editor: from 1, including the heading of CSV and empty lines.
type place struct {
	File     string `json:"file"`
	FileLine int    `json:"fileLine"`
}

// inputLine is a line of a file, or a row of CSV in the form of a line.
type inputLine struct {
	place

	text []byte
}

// lines returns the lines of all files without the empty ones. It ends with the first error.
func (c *importCommand) lines() iter.Seq2[inputLine, error] {
	return func(yield func(inputLine, error) bool) {
		for _, name := range c.Files {
			for line, err := range c.linesOf(name) {
				if !yield(line, err) || err != nil {
					return
				}
			}
		}
	}
}

func (c *importCommand) linesOf(name string) iter.Seq2[inputLine, error] {
	return func(yield func(inputLine, error) bool) {
		file, err := os.Open(name)
		if err != nil {
			yield(inputLine{}, fmt.Errorf("read lines: %w", err))
			return
		}
		defer file.Close() //nolint:errcheck // it was only read from
		next := numberedLines(file)
		if c.Format == "csv" || c.Format == "auto" && strings.EqualFold(filepath.Ext(name), ".csv") {
			next, err = c.csvRows(file)
		}
		for err == nil {
			line := inputLine{place: place{File: name}}
			line.text, line.FileLine, err = next()
			if err == nil && len(bytes.TrimSpace(line.text)) > 0 && !yield(line, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(inputLine{}, fmt.Errorf("read %s: %w", name, err))
		}
	}
}

// numberedLines returns a function that returns the next line and its number.
func numberedLines(from io.Reader) func() ([]byte, int, error) {
	reader, number := imports.NewLineReader(from), 0
	return func() ([]byte, int, error) {
		line, err := reader.Next()
		number++
		return line, number, err
	}
}

// csvRows returns a function that returns the next row of CSV as a line of NDJSON, and the number of the line where the
// row begins.
func (c *importCommand) csvRows(from io.Reader) (next func() ([]byte, int, error), err error) {
	reader := csv.NewReader(from)
	reader.ReuseRecord = true
	heading, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("read the names of columns: %w", err)
	}
	members, err := c.members(heading)
	if err != nil {
		return nil, err
	}
	return func() ([]byte, int, error) {
		row, err := reader.Read()
		if err != nil {
			return nil, 0, err
		}
		number, _ := reader.FieldPos(0)
		line, err := c.lineOfRow(members, row)
		return line, number, err
	}, nil
}

// members returns the member for each column of the heading, by --map or by the name of the column. The member key is
// the idempotency key.
func (c *importCommand) members(heading []string) ([]string, error) {
	columns := slices.Clone(heading)
	columns[0] = strings.TrimPrefix(columns[0], "\ufeff")
	for column := range c.Map {
		if !slices.Contains(columns, column) {
			return nil, fmt.Errorf("there is no column %q, only %q", column, columns)
		}
	}
	for i, column := range columns {
		if member, ok := c.Map[column]; ok {
			columns[i] = member
		}
		if columns[i] != "" && slices.Contains(columns[:i], columns[i]) {
			return nil, fmt.Errorf("two columns are the member %q", columns[i])
		}
	}
	return columns, nil
}

// lineOfRow returns a row of CSV as a line of NDJSON, without the members whose cell is empty. Genres are separated by
// semicolons.
func (c *importCommand) lineOfRow(members, row []string) ([]byte, error) {
	line := map[string]any{"operation": c.Operation}
	body := map[string]any{}
	for i, value := range row {
		switch member := members[i]; {
		case value == "":
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
	return json.Marshal(line, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}
