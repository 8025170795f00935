package archive

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/text/encoding"
)

// errorColumn is the column of a report of CSV with the problem of the row.
const errorColumn = "error"

// CheckReport refuses files whose lines do not fit into one report.
func (a *Archive) CheckReport() error {
	first := a.files[0]
	for _, f := range a.files[1:] {
		if f.isCSV != first.isCSV || f.comma != first.comma || f.page != first.page ||
			!slices.Equal(f.heading, first.heading) {
			return fmt.Errorf("%s and %s have different formats or columns, so they need a report each: import them one "+
				"after the other", first.Name(), f.Name())
		}
	}
	return nil
}

// WriteReport writes the lines that have problems, as they are in their files, to be corrected and imported again. Rows
// of CSV get a last column with the problem.
func (a *Archive) WriteReport(to io.Writer) error {
	var failed []Remark
	for _, kind := range a.Problems {
		failed = append(failed, kind.Remarks...)
	}
	slices.SortFunc(failed, func(a, b Remark) int { return cmp.Compare(a.index, b.index) })
	write := func(raw []byte, _ string) error {
		_, err := to.Write(append(bytes.TrimRight(raw, "\r\n"), '\n'))
		return err
	}
	if f := a.files[0]; f.isCSV {
		if f.begin > 0 { // so that a spreadsheet takes it as UTF-8
			_, _ = to.Write(byteOrderMark) // an error comes again below
		}
		out, columns := csv.NewWriter(to), len(f.heading)
		out.Comma = f.comma
		if f.members[columns-1] == "" && f.heading[columns-1] == errorColumn { // it is a corrected report
			columns--
		}
		if err := out.Write(append(slices.Clone(f.heading[:columns]), errorColumn)); err != nil {
			return err
		}
		write = func(raw []byte, detail string) error {
			reader := f.reader(bytes.NewReader(raw))
			reader.LazyQuotes = true // what is not valid CSV is written as well as it can be
			cells, err := reader.Read()
			if err != nil && !errors.Is(err, io.EOF) {
				cells = []string{string(raw)}
			}
			cells = append(cells, make([]string, max(0, columns-len(cells)))...)
			if f.page != nil {
				detail, _ = encoding.HTMLEscapeUnsupported(f.page.NewEncoder()).String(detail)
			}
			if columns < len(f.heading) && columns < len(cells) {
				cells = slices.Delete(cells, columns, columns+1) // the earlier problem
			}
			return out.Write(append(cells, detail))
		}
		defer out.Flush()
	}
	for _, remark := range failed {
		l := a.lines[remark.index]
		raw, err := a.files[l.file].raw(l)
		if err == nil {
			err = write(raw, remark.Detail)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
