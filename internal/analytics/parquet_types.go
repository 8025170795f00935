package analytics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/parquet-go/parquet-go"
)

// parquetColumn converts values of a PostgreSQL type to a Parquet type.
type parquetColumn struct {
	node   parquet.Node
	format int16 // in which the server sends the values: text or binary
	// convert converts a value that is not NULL to a Parquet value, which may refer to the bytes of raw.
	convert func(raw []byte) (parquet.Value, error)
	// elements returns the elements of a list that is not NULL. Only columns of lists have it, instead of convert.
	elements func(raw []byte) ([]string, error)
}

// parquetColumns returns the Parquet types of a view's columns:
//
//	uuid                        UUID
//	timestamp with time zone    TIMESTAMP, microseconds, UTC
//	date                        DATE
//	text                        STRING
//	text[]                      LIST of STRING
//	numeric                     STRING with the exact digits, and an extra column DECIMAL(18,6), see withDecimals
//	integer, bigint             INT32, INT64
//	double precision            DOUBLE
//	boolean                     BOOLEAN
func parquetColumns(view View) ([]parquetColumn, error) {
	columns := make([]parquetColumn, len(view.Columns))
	types := parquetTypes()
	for i := range view.Columns {
		c := &view.Columns[i]
		column, ok := types[c.oid]
		if !ok {
			return nil, fmt.Errorf("column %s has the type %s, which this export cannot convert to Parquet", c.Name, c.Type)
		}
		columns[i] = column
	}
	return columns, nil
}

// decimalOID marks a column of type DECIMAL in Parquet. The server sends its values as integers in millionths.
const decimalOID = 1

// withDecimals returns the view with a column x_decimal after each numeric column x. Its type is DECIMAL(18,6), rounded
// to six places; it is NULL for a number with more than twelve digits before the point.
func (v View) withDecimals() View {
	columns := make([]Column, 0, len(v.Columns))
	for _, c := range v.Columns {
		columns = append(columns, c)
		if c.oid == pgtype.NumericOID {
			name := pgx.Identifier{c.Name}.Sanitize()
			columns = append(columns, Column{
				Name: c.Name + "_decimal", oid: decimalOID,
				expression: "CASE WHEN abs(round(" + name + ", 6)) < 1e12 THEN (round(" + name + ", 6) * 1000000)::bigint END",
			})
		}
	}
	v.Columns = columns
	return v
}

// Days and microseconds between the epochs of Parquet (1970) and PostgreSQL (2000).
const (
	epochDays   = 10957
	epochMicros = epochDays * 24 * 60 * 60 * 1_000_000
)

var errInfinite = errors.New("an infinite time cannot be stored in Parquet")

// typeOf returns a column whose values PostgreSQL sends in the binary format.
func typeOf(node parquet.Node, convert func(raw []byte) (parquet.Value, error)) parquetColumn {
	return parquetColumn{node: node, format: pgx.BinaryFormatCode, convert: convert}
}

func parquetTypes() map[uint32]parquetColumn {
	arrays := pgtype.NewMap()
	int32Of := func(raw []byte) int32 { return int32(binary.BigEndian.Uint32(raw)) } //nolint:gosec // two's complement, as the server sends it
	int64Of := func(raw []byte) int64 { return int64(binary.BigEndian.Uint64(raw)) } //nolint:gosec // likewise
	text := func(raw []byte) (parquet.Value, error) { return parquet.ByteArrayValue(raw), nil }
	bigint := func(raw []byte) (parquet.Value, error) { return parquet.Int64Value(int64Of(raw)), nil }
	return map[uint32]parquetColumn{
		pgtype.UUIDOID: typeOf(parquet.UUID(), func(raw []byte) (parquet.Value, error) {
			return parquet.FixedLenByteArrayValue(raw), nil
		}),
		pgtype.TimestamptzOID: typeOf(parquet.Timestamp(parquet.Microsecond), func(raw []byte) (parquet.Value, error) {
			micros := int64Of(raw)
			if micros == math.MaxInt64 || micros == math.MinInt64 {
				return parquet.Value{}, errInfinite
			}
			return parquet.Int64Value(micros + epochMicros), nil
		}),
		pgtype.DateOID: typeOf(parquet.Date(), func(raw []byte) (parquet.Value, error) {
			days := int32Of(raw)
			if days == math.MaxInt32 || days == math.MinInt32 {
				return parquet.Value{}, errInfinite
			}
			return parquet.Int32Value(days + epochDays), nil
		}),
		pgtype.TextOID:    typeOf(parquet.String(), text),
		pgtype.NumericOID: {node: parquet.String(), format: pgx.TextFormatCode, convert: text},
		pgtype.Int4OID: typeOf(parquet.Leaf(parquet.Int32Type), func(raw []byte) (parquet.Value, error) {
			return parquet.Int32Value(int32Of(raw)), nil
		}),
		pgtype.Int8OID: typeOf(parquet.Leaf(parquet.Int64Type), bigint),
		decimalOID:     typeOf(parquet.Decimal(6, 18, parquet.Int64Type), bigint),
		pgtype.Float8OID: typeOf(parquet.Leaf(parquet.DoubleType), func(raw []byte) (parquet.Value, error) {
			return parquet.DoubleValue(math.Float64frombits(binary.BigEndian.Uint64(raw))), nil
		}),
		pgtype.BoolOID: typeOf(parquet.Leaf(parquet.BooleanType), func(raw []byte) (parquet.Value, error) {
			return parquet.BooleanValue(raw[0] != 0), nil
		}),
		pgtype.TextArrayOID: {
			node: parquet.List(parquet.String()), format: pgx.BinaryFormatCode,
			elements: func(raw []byte) (list []string, err error) {
				return list, arrays.Scan(pgtype.TextArrayOID, pgx.BinaryFormatCode, raw, &list)
			},
		},
	}
}

// append adds the value of a column to a row with its definition level: 0 for NULL, 1 for a value or an empty list, 2
// for an element of a list.
func (c *parquetColumn) append(row parquet.Row, column int, raw []byte) (parquet.Row, error) {
	switch {
	case raw == nil:
		return append(row, parquet.NullValue().Level(0, 0, column)), nil
	case c.elements == nil:
		value, err := c.convert(raw)
		return append(row, value.Level(0, 1, column)), err
	}
	elements, err := c.elements(raw)
	if err != nil {
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
