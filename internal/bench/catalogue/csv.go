package catalogue

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Novel is one row of a catalogue.
type Novel struct {
	Key      string `json:"-"` // idempotency key
	Title    string `json:"novel"`
	Author   string `json:"author,omitempty"`
	Language string `json:"language,omitempty"`
	CoverURL string `json:"coverUrl,omitempty"`

	// No column has these; see Changes.
	Synopsis      string   `json:"synopsis,omitempty"`
	Genres        []string `json:"genres,omitempty"`
	ReadingStatus string   `json:"readingStatus,omitempty"`
}

var errColumn = errors.New("the catalogue has no column")

// Read reads a CSV file with a header. The columns title, authors, language_code and image_url are used; only title
// must be there. A key is made of the column book_id, or of the whole row when there is no such column.
func Read(r io.Reader) ([]Novel, error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header of the catalogue: %w", err)
	}
	columns := map[string]int{}
	for i, name := range header {
		columns[strings.TrimPrefix(name, "\ufeff")] = i
	}
	if _, ok := columns["title"]; !ok {
		return nil, fmt.Errorf("%w title", errColumn)
	}
	var novels []Novel
	for {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return novels, nil
		case err != nil:
			return nil, fmt.Errorf("read the catalogue: %w", err)
		}
		field := func(name string) string {
			if i, ok := columns[name]; ok {
				return row[i]
			}
			return ""
		}
		novels = append(novels, Novel{
			Key: rowKey(field("book_id"), row), Title: field("title"), Author: field("authors"),
			Language: field("language_code"), CoverURL: field("image_url"),
		})
	}
}

func rowKey(id string, row []string) string {
	if id != "" {
		return "book-" + id
	}
	sum := sha256.Sum256([]byte(strings.Join(row, "\x00")))
	return "row-" + hex.EncodeToString(sum[:12])
}
