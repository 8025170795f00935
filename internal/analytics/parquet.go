package analytics

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/parquet-go/parquet-go"
)

// Limits of a row group, which is in memory until it is complete.
const (
	maxGroupBytes = 16 << 20
	maxGroupRows  = 1 << 20
)

// writeParquet writes the rows of a view as a Parquet file. It returns the number of written rows.
func writeParquet(
	ctx context.Context, tx pgx.Tx, view View, out io.Writer, createdBy string, report progress,
) (count int64, err error) {
	view = view.withDecimals()
	columns, err := parquetColumns(view)
	if err != nil {
		return 0, err
	}
	writer := parquet.NewGenericWriter[any](out, schemaOf(view, columns), parquet.Compression(&parquet.Zstd),
		&parquet.WriterConfig{CreatedBy: createdBy}, parquet.KeyValueMetadata("view", "analytics."+view.Name))
	formats := make(pgx.QueryResultFormats, len(columns))
	for i, c := range columns {
		formats[i] = c.format
	}
	rows, err := tx.Query(ctx, view.query(), formats)
	if err != nil {
		return 0, fmt.Errorf("select: %w", err)
	}
	defer rows.Close()
	var row parquet.Row
	groupBytes, groupRows := 0, 0
	for rows.Next() {
		row = row[:0]
		for i, raw := range rows.RawValues() {
			if row, err = columns[i].append(row, i, raw); err != nil {
				return count, fmt.Errorf("column %s: %w", view.Columns[i].Name, err)
			}
			groupBytes += len(raw)
		}
		// WriteRows copies the values, so the next row may overwrite them.
		if _, err := writer.WriteRows([]parquet.Row{row}); err != nil {
			return count, fmt.Errorf("write row: %w", err)
		}
		count++
		groupRows++
		if groupBytes >= maxGroupBytes || groupRows >= maxGroupRows {
			if err := writer.Flush(); err != nil {
				return count, fmt.Errorf("write row group: %w", err)
			}
			groupBytes, groupRows = 0, 0
		}
		report(count, false)
	}
	if err := rows.Err(); err != nil {
		return count, fmt.Errorf("select: %w", err)
	}
	if err := writer.Close(); err != nil {
		return count, fmt.Errorf("write end of file: %w", err)
	}
	report(count, true)
	return count, nil
}

// orderedGroup is a group with its fields in the order of the view. A plain Group sorts them by name.
type orderedGroup struct {
	parquet.Group
	names []string
}

// Fields implements parquet.Node.
func (g orderedGroup) Fields() []parquet.Field {
	fields := g.Group.Fields()
	slices.SortFunc(fields,
		func(a, b parquet.Field) int { return slices.Index(g.names, a.Name()) - slices.Index(g.names, b.Name()) })
	return fields
}

func schemaOf(view View, columns []parquetColumn) *parquet.Schema {
	root := orderedGroup{Group: parquet.Group{}}
	for i, c := range columns {
		root.Group[view.Columns[i].Name] = parquet.Optional(c.node)
		root.names = append(root.names, view.Columns[i].Name)
	}
	return parquet.NewSchema(view.Name, root)
}
