package analytics

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/parquet-go/parquet-go"
)

// Limits of a row group, which is in memory until it is complete.
const (
	maxGroupBytes = 16 << 20
	maxGroupRows  = 1 << 20
)

// writeParquet writes the rows of a view as a Parquet file. It returns the number of written rows.
func (s *Snapshot) writeParquet(ctx context.Context, view View, out io.Writer) (count int64, err error) {
	view = view.withDecimals()
	columns, formats := make([]parquetType, len(view.Columns)), make(pgx.QueryResultFormats, len(view.Columns))
	root := orderedGroup{Group: parquet.Group{}}
	for i, c := range view.Columns {
		known, ok := parquetTypes[c.oid]
		if !ok {
			return 0, fmt.Errorf("column %s has the type %s, which this export cannot convert to Parquet", c.Name, c.Type)
		}
		columns[i], formats[i] = known, pgx.BinaryFormatCode
		if c.oid == pgtype.NumericOID {
			formats[i] = pgx.TextFormatCode
		}
		root.Group[c.Name] = parquet.Optional(known.node)
		root.names = append(root.names, c.Name)
	}
	writer := parquet.NewGenericWriter[any](out, parquet.NewSchema(view.Name, root), parquet.Compression(&parquet.Zstd),
		parquet.KeyValueMetadata("view", "analytics."+view.Name),
		parquet.KeyValueMetadata("as_of", s.AsOf.Format(time.RFC3339Nano)),
		parquet.KeyValueMetadata("changed_since", view.since))
	rows, err := s.tx.Query(ctx, view.query(), formats)
	if err != nil {
		return 0, fmt.Errorf("select: %w", err)
	}
	defer rows.Close()
	var row parquet.Row
	groupBytes, groupRows := 0, 0
	for rows.Next() {
		row = row[:0]
		for i, raw := range rows.RawValues() {
			if row, err = columns[i].append(row, i, raw, s.tx.Conn().TypeMap()); err != nil {
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
	}
	if err := rows.Err(); err != nil {
		return count, fmt.Errorf("select: %w", err)
	}
	if err := writer.Close(); err != nil {
		return count, fmt.Errorf("write end of file: %w", err)
	}
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

// decimalOID marks a column of type DECIMAL in Parquet. The server sends its values as integers in millionths.
const decimalOID = 1

// withDecimals returns the view with each numeric column x as DECIMAL(18,6), rounded to six places, NULL for a number
// with more than twelve digits before the point; and after it a column x_exact with the digits as text. Parquet has no
// type for any decimal, and what has the name of a number must compare and add up as one.
func (v View) withDecimals() View {
	columns := make([]Column, 0, len(v.Columns))
	for _, c := range v.Columns {
		if c.oid != pgtype.NumericOID {
			columns = append(columns, c)
			continue
		}
		name := pgx.Identifier{c.Name}.Sanitize()
		columns = append(columns, Column{
			Name: c.Name, oid: decimalOID,
			expression: "CASE WHEN abs(round(" + name + ", 6)) < 1e12 THEN (round(" + name + ", 6) * 1000000)::bigint END",
		}, Column{Name: c.Name + "_exact", oid: pgtype.NumericOID, expression: name})
	}
	v.Columns = columns
	return v
}

// parquetType converts values of a PostgreSQL type to a Parquet type.
type parquetType struct {
	node parquet.Node
	// convert converts a value that is not NULL, as the server sends it, to a Parquet value, which may refer to the bytes
	// of raw. It is nil for a list of texts.
	convert func(raw []byte) (parquet.Value, error)
}

// parquetTypes has the Parquet type of each PostgreSQL type. The server sends all values in the binary format, but
// numeric ones as text.
var parquetTypes = map[uint32]parquetType{
	pgtype.UUIDOID:        {parquet.UUID(), fixed},
	pgtype.TimestamptzOID: {parquet.Timestamp(parquet.Microsecond), timestamp},
	pgtype.DateOID:        {parquet.Date(), date},
	pgtype.TextOID:        {parquet.String(), text},
	pgtype.TextArrayOID:   {parquet.List(parquet.String()), nil},
	pgtype.NumericOID:     {parquet.String(), text}, // of the columns x_exact; see withDecimals
	decimalOID:            {parquet.Decimal(6, 18, parquet.Int64Type), bigint},
	pgtype.Int4OID:        {parquet.Leaf(parquet.Int32Type), integer},
	pgtype.Int8OID:        {parquet.Leaf(parquet.Int64Type), bigint},
	pgtype.Float8OID:      {parquet.Leaf(parquet.DoubleType), double},
	pgtype.BoolOID:        {parquet.Leaf(parquet.BooleanType), boolean},
}

func fixed(raw []byte) (parquet.Value, error)   { return parquet.FixedLenByteArrayValue(raw), nil }
func text(raw []byte) (parquet.Value, error)    { return parquet.ByteArrayValue(raw), nil }
func integer(raw []byte) (parquet.Value, error) { return parquet.Int32Value(int32Of(raw)), nil }
func bigint(raw []byte) (parquet.Value, error)  { return parquet.Int64Value(int64Of(raw)), nil }
func boolean(raw []byte) (parquet.Value, error) { return parquet.BooleanValue(raw[0] != 0), nil }

func double(raw []byte) (parquet.Value, error) {
	return parquet.DoubleValue(math.Float64frombits(binary.BigEndian.Uint64(raw))), nil
}

func int32Of(raw []byte) int32 { return int32(binary.BigEndian.Uint32(raw)) } //nolint:gosec // two's complement, as the server sends it
func int64Of(raw []byte) int64 { return int64(binary.BigEndian.Uint64(raw)) } //nolint:gosec // likewise

// Days and microseconds between the epochs of Parquet (1970) and PostgreSQL (2000).
const (
	epochDays   = 10957
	epochMicros = epochDays * 24 * 60 * 60 * 1_000_000
)

var errInfinite = errors.New("an infinite time cannot be stored in Parquet")

func timestamp(raw []byte) (parquet.Value, error) {
	micros := int64Of(raw)
	if micros == math.MaxInt64 || micros == math.MinInt64 {
		return parquet.Value{}, errInfinite
	}
	return parquet.Int64Value(micros + epochMicros), nil
}

func date(raw []byte) (parquet.Value, error) {
	days := int32Of(raw)
	if days == math.MaxInt32 || days == math.MinInt32 {
		return parquet.Value{}, errInfinite
	}
	return parquet.Int32Value(days + epochDays), nil
}

// append adds the value of a column to a row with its definition level: 0 for NULL, 1 for a value or an empty list, 2
// for an element of a list.
func (t parquetType) append(row parquet.Row, column int, raw []byte, arrays *pgtype.Map) (parquet.Row, error) {
	switch {
	case raw == nil:
		return append(row, parquet.NullValue().Level(0, 0, column)), nil
	case t.convert != nil:
		value, err := t.convert(raw)
		return append(row, value.Level(0, 1, column)), err
	}
	var elements []string
	if err := arrays.Scan(pgtype.TextArrayOID, pgx.BinaryFormatCode, raw, &elements); err != nil {
		return nil, fmt.Errorf("read array: %w", err)
	}
	if len(elements) == 0 {
		return append(row, parquet.NullValue().Level(0, 1, column)), nil
	}
	for i, element := range elements {
		row = append(row, parquet.ByteArrayValue([]byte(element)).Level(min(i, 1), 2, column))
	}
	return row, nil
}
