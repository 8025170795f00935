package readapi_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/readapi"
)

var moment = time.Date(2025, 3, 1, 12, 0, 0, 1000, time.UTC)

func TestBeside(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse
	for _, c := range []struct {
		id, after, before string
		later, earlier    time.Duration
	}{
		{
			"00000000-0000-0000-0000-000000000100", "00000000-0000-0000-0000-000000000101",
			"00000000-0000-0000-0000-0000000000ff", 0, 0,
		},
		{
			"00000000-0000-0000-0000-00000000ffff", "00000000-0000-0000-0000-000000010000",
			"00000000-0000-0000-0000-00000000fffe", 0, 0,
		},
		{
			"ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-0000-0000-000000000000",
			"ffffffff-ffff-ffff-ffff-fffffffffffe", time.Microsecond, 0,
		},
		{
			"00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001",
			"ffffffff-ffff-ffff-ffff-ffffffffffff", 0, -time.Microsecond,
		},
	} {
		if at, got := readapi.Beside(moment, id(c.id), true); got != id(c.after) || !at.Equal(moment.Add(c.later)) {
			t.Errorf("behind %s is %v %s", c.id, at, got)
		}
		if at, got := readapi.Beside(moment, id(c.id), false); got != id(c.before) || !at.Equal(moment.Add(c.earlier)) {
			t.Errorf("before %s is %v %s", c.id, at, got)
		}
	}
}

func TestCursorsComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-62_135_596_800_000_000, 253_402_300_799_999_999).Draw(t, "at")).UTC()
		depth := rapid.IntRange(0, 1<<30).Draw(t, "depth")
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		gotAt, gotDepth, gotID, err := readapi.Cursor(at, depth, id)
		if err != nil || !gotAt.Equal(at) || gotDepth != depth || gotID != id {
			t.Errorf("%v %d %s became %v %d %s, %v", at, depth, id, gotAt, gotDepth, gotID, err)
		}
	})
}
