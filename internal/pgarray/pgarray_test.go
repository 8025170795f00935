package pgarray_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"novelgate/internal/pgarray"
	"novelgate/internal/testdb"
)

var (
	first  = uuid.MustParse("01000000-0000-7000-8000-0000000000ff")
	second = uuid.MustParse("ff000000-0000-7000-8000-000000000001")
	moment = time.Date(1999, 12, 31, 23, 59, 59, 999999000, time.UTC)
)

// arrays are values of all types that are sent here: with elements, without, and none at all.
var arrays = map[string]struct {
	oid    uint32
	values []any
}{
	"uuids": {pgtype.UUIDArrayOID, []any{[]uuid.UUID{first, second}, []uuid.UUID{}, []uuid.UUID(nil)}},
	"pgtype uuids": {
		pgtype.UUIDArrayOID,
		[]any{[]pgtype.UUID{{Bytes: first, Valid: true}, {Bytes: second}, {}}, []pgtype.UUID{}, []pgtype.UUID(nil)},
	},
	"flat uuids": {
		pgtype.UUIDArrayOID,
		[]any{
			pgtype.FlatArray[pgtype.UUID]{{Bytes: first, Valid: true}, {}},
			pgtype.FlatArray[pgtype.UUID]{},
			pgtype.FlatArray[pgtype.UUID](nil),
		},
	},
	"strings": {pgtype.TextArrayOID, []any{[]string{"a", "", `"{é},NULL\`}, []string{}, []string(nil)}},
	"flat texts": {
		pgtype.TextArrayOID,
		[]any{
			pgtype.FlatArray[pgtype.Text]{{String: "NULL", Valid: true}, {String: "dropped"}, {}},
			pgtype.FlatArray[pgtype.Text]{},
			pgtype.FlatArray[pgtype.Text](nil),
		},
	},
	"json": {
		pgtype.JSONArrayOID, []any{[][]byte{[]byte(`{"a": [1]}`), nil, []byte(`null`)}, [][]byte{}, [][]byte(nil)},
	},
	"integers": {pgtype.Int4ArrayOID, []any{[]int32{-1 << 31, -1, 0, 1<<31 - 1}, []int32{}, []int32(nil)}},
	"flat integers": {
		pgtype.Int4ArrayOID, []any{pgtype.FlatArray[int32]{7}, pgtype.FlatArray[int32]{}, pgtype.FlatArray[int32](nil)},
	},
	"flat times": {
		pgtype.TimestamptzArrayOID,
		[]any{
			pgtype.FlatArray[time.Time]{moment, moment.In(time.FixedZone("", 3600)), time.Unix(0, 0)},
			pgtype.FlatArray[time.Time]{},
			pgtype.FlatArray[time.Time](nil),
		},
	},
	"not sent here":    {pgtype.TextArrayOID, []any{[]*string{nil, new("x")}}},
	"of another array": {pgtype.Int8ArrayOID, []any{[]int32{1, 2}}},
}

// TestBytes holds what is sent to the bytes of pgx, also behind what stands in the buffer already.
func TestBytes(t *testing.T) {
	t.Parallel()
	theirs, ours := pgtype.NewMap(), pgtype.NewMap()
	for _, m := range []*pgtype.Map{theirs, ours} {
		pgxuuid.Register(m)
	}
	pgarray.Register(ours)
	for name, array := range arrays {
		for i, value := range array.values {
			want, err := theirs.Encode(array.oid, pgtype.BinaryFormatCode, value, []byte("before"))
			if err != nil {
				t.Fatalf("%s %d: %v", name, i, err)
			}
			got, err := ours.Encode(array.oid, pgtype.BinaryFormatCode, value, []byte("before"))
			if err != nil {
				t.Fatalf("%s %d: %v", name, i, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %d (-pgx +here):\n%s", name, i, diff)
			}
		}
	}
}

// TestRoundTrip sends each array to PostgreSQL, and reads with pgx what it has understood.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, testdb.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	pgxuuid.Register(conn.TypeMap())
	pgarray.Register(conn.TypeMap())

	type row struct {
		IDs   []uuid.UUID
		Texts []*string
		JSON  []*string
		Ints  []int32
		Times []time.Time
	}
	rows, err := conn.Query(ctx, `SELECT $1::uuid[], $2::text[], $3::json[]::text[], $4::integer[], $5::timestamptz[]`,
		[]uuid.UUID{first, second},
		pgtype.FlatArray[pgtype.Text]{{String: `"{é},NULL\`, Valid: true}, {}}, [][]byte{[]byte(`{"a": [1]}`), nil},
		[]int32{-1, 2}, pgtype.FlatArray[time.Time]{moment})
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	want := row{
		[]uuid.UUID{first, second},
		[]*string{new(`"{é},NULL\`), nil},
		[]*string{new(`{"a": [1]}`), nil},
		[]int32{-1, 2},
		[]time.Time{moment},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}
