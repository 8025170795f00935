// Package pgarray sends columns of values as array parameters. It writes the bytes that pgx would write, in
// PostgreSQL's binary format for arrays, but all elements into one buffer of the right size: pgx makes an interface
// value of each element and looks up how to encode it, which for the eleven columns of an append is most of the cost of
// sending it.
package pgarray

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Register makes a connection send the types below in this way wherever PostgreSQL expects the array in question. All
// other types, and reading, stay with pgx.
//
//	uuid[]         []uuid.UUID, []pgtype.UUID and pgtype.FlatArray of it
//	text[]         []string, pgtype.FlatArray[pgtype.Text]
//	json[]         [][]byte, of which nil is NULL
//	integer[]      []int32 and pgtype.FlatArray of it
//	timestamptz[]  pgtype.FlatArray[time.Time]
func Register(m *pgtype.Map) {
	for _, oid := range []uint32{
		pgtype.UUIDArrayOID, pgtype.TextArrayOID, pgtype.JSONArrayOID, pgtype.Int4ArrayOID, pgtype.TimestamptzArrayOID,
	} {
		registered, ok := m.TypeForOID(oid)
		if !ok {
			continue
		}
		if arrays, ok := registered.Codec.(*pgtype.ArrayCodec); ok {
			m.RegisterType(&pgtype.Type{Name: registered.Name, OID: oid, Codec: codec{arrays}})
		}
	}
}

// codec is pgx's own but for the types that encode knows.
type codec struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (c codec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode && known(oid, value) {
		return plan{element: c.ElementType.OID}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// known reports whether an array of the type oid is sent here when it comes as value.
func known(oid uint32, value any) bool {
	switch value.(type) {
	case []uuid.UUID, []pgtype.UUID, pgtype.FlatArray[pgtype.UUID]:
		return oid == pgtype.UUIDArrayOID
	case []string, pgtype.FlatArray[pgtype.Text]:
		return oid == pgtype.TextArrayOID
	case [][]byte:
		return oid == pgtype.JSONArrayOID
	case []int32, pgtype.FlatArray[int32]:
		return oid == pgtype.Int4ArrayOID
	case pgtype.FlatArray[time.Time]:
		return oid == pgtype.TimestamptzArrayOID
	default:
		return false
	}
}

// plan encodes what is known.
type plan struct{ element uint32 }

// Encode implements pgtype.EncodePlan.
func (p plan) Encode(value any, buf []byte) ([]byte, error) {
	switch items := value.(type) {
	case []uuid.UUID:
		return column(buf, p.element, items, 16*len(items),
			func(buf []byte, id uuid.UUID) ([]byte, bool) { return append(buf, id[:]...), true }), nil
	case []pgtype.UUID:
		return column(buf, p.element, items, 16*len(items), appendUUID), nil
	case pgtype.FlatArray[pgtype.UUID]:
		return column(buf, p.element, items, 16*len(items), appendUUID), nil
	case []string:
		size := 0
		for _, s := range items {
			size += len(s)
		}
		return column(buf, p.element, items, size,
			func(buf []byte, s string) ([]byte, bool) { return append(buf, s...), true }), nil
	case pgtype.FlatArray[pgtype.Text]:
		size := 0
		for i := range items {
			size += len(items[i].String)
		}
		return column(buf, p.element, items, size,
			func(buf []byte, t pgtype.Text) ([]byte, bool) { return append(buf, t.String...), t.Valid }), nil
	case [][]byte:
		size := 0
		for _, b := range items {
			size += len(b)
		}
		return column(buf, p.element, items, size, func(buf, b []byte) ([]byte, bool) { return append(buf, b...), b != nil }),
			nil
	case []int32:
		return column(buf, p.element, items, 4*len(items), appendInt), nil
	case pgtype.FlatArray[int32]:
		return column(buf, p.element, items, 4*len(items), appendInt), nil
	case pgtype.FlatArray[time.Time]:
		return column(buf, p.element, items, 8*len(items), appendTime), nil
	default: // known knows no more
		return nil, fmt.Errorf("%T was planned as an array that is sent here, and is none", value)
	}
}

func appendUUID(buf []byte, id pgtype.UUID) ([]byte, bool) {
	return append(buf, id.Bytes[:]...), id.Valid
}

func appendInt(buf []byte, i int32) ([]byte, bool) {
	return binary.BigEndian.AppendUint32(buf, uint32(i)), true //nolint:gosec // the same 32 bits
}

// epoch is that of PostgreSQL's timestamps, which count microseconds.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func appendTime(buf []byte, t time.Time) ([]byte, bool) {
	return binary.BigEndian.AppendUint64(buf, uint64(t.UnixMicro()-epoch)), true //nolint:gosec // the same 64 bits
}

// lengthOfNull stands for the length of an element that is NULL.
const lengthOfNull = math.MaxUint32

// column appends an array of one dimension whose elements take size bytes together. appendElement returns false for
// NULL; what it has appended then is dropped. A nil slice is a NULL array: nil.
func column[T any](
	buf []byte, element uint32, items []T, size int, appendElement func([]byte, T) ([]byte, bool),
) []byte {
	if items == nil {
		return nil
	}
	if needed := 20 + 4*len(items) + size; cap(buf)-len(buf) < needed {
		buf = slices.Grow(buf, max(needed, cap(buf))) // the next column finds room too
	}
	buf = binary.BigEndian.AppendUint32(buf, 1) // dimensions
	nulls := len(buf)
	buf = binary.BigEndian.AppendUint32(buf, 0) // whether any element is NULL
	buf = binary.BigEndian.AppendUint32(buf, element)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(items))) //nolint:gosec // PostgreSQL takes 1 GiB at most
	buf = binary.BigEndian.AppendUint32(buf, 1)                  // index of the first
	for _, item := range items {
		at := len(buf)
		buf = binary.BigEndian.AppendUint32(buf, lengthOfNull)
		if with, ok := appendElement(buf, item); ok {
			binary.BigEndian.PutUint32(with[at:], uint32(len(with)-at-4)) //nolint:gosec // see above
			buf = with
		} else {
			binary.BigEndian.PutUint32(buf[nulls:], 1)
		}
	}
	return buf
}
