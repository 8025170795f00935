package reference

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// Rows are all rows of one table as text, sorted.
type Rows []string

// Digest identifies the rows: SHA-256 over all of them, a line each, in hexadecimal.
func (r Rows) Digest() string {
	h := sha256.New()
	for _, row := range r {
		h.Write([]byte(row))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// canonical is one row as it is compared.
func canonical(row []byte) (string, error) {
	v := jsontext.Value(row)
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return "", fmt.Errorf("make canonical: %w", err)
	}
	return string(v), nil
}

// moment is a time as PostgreSQL writes it into JSON while its time zone is UTC.
type moment time.Time

func (m moment) MarshalText() ([]byte, error) {
	return time.Time(m).UTC().AppendFormat(nil, "2006-01-02T15:04:05.999999-07:00"), nil
}

func at(t time.Time) *moment { return (*moment)(&t) }

func atOrNull(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	return at(*t)
}

// bytesText is a bytea as PostgreSQL writes it.
func bytesText(b []byte) string { return `\x` + hex.EncodeToString(b) }

// textOrNull is a text that is NULL rather than empty.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// writer collects the rows of tables.
type writer struct {
	tables map[string]Rows
	err    error
}

func writeAll[R any](w *writer, table string, rows map[uuid.UUID]R) {
	w.begin(table)
	for _, row := range rows {
		w.add(table, row)
	}
}

// begin makes a table known that may have no rows.
func (w *writer) begin(table string) {
	if w.tables == nil {
		w.tables = map[string]Rows{}
	}
	w.tables[table] = Rows{}
}

func (w *writer) add(table string, row any) {
	encoded, err := json.Marshal(row)
	var text string
	if err == nil {
		text, err = canonical(encoded)
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("encode a row of %s: %w", table, err)
	}
	w.tables[table] = append(w.tables[table], text)
}

func (w *writer) done() (map[string]Rows, error) {
	for _, rows := range w.tables {
		slices.Sort(rows)
	}
	return w.tables, w.err
}
