package imports_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/imports"
	"novelgate/commands/ratelimit"
	"novelgate/internal/problem"
)

func TestPartsAreCutIntoChunks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text   string
		chunks []int // lines of each
		err    error
	}{
		"nothing":     {"", nil, io.EOF},
		"no last end": {"a\nb", []int{2}, io.EOF},
		"empty lines": {"\n\n", []int{2}, io.EOF},
		"thousand":    {strings.Repeat("a\n", 1_000), []int{1_000}, io.EOF},
		"one more":    {strings.Repeat("a\n", 1_001), []int{1_000, 1}, io.EOF},
		"by size":     {strings.Repeat(strings.Repeat("a", 60_000)+"\n", 20), []int{17, 3}, io.EOF},
		"too many":    {strings.Repeat("a\n", 10_001), slices.Repeat([]int{1_000}, 10), problem.PayloadTooLarge(0)},
		"too large": {
			strings.Repeat(strings.Repeat("a", 60_000)+"\n", 280), slices.Repeat([]int{17}, 16), problem.PayloadTooLarge(0),
		},
		"a cut stream": {"a\nb\x00cut", nil, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var from io.Reader = strings.NewReader(test.text)
			if before, _, cut := strings.Cut(test.text, "\x00cut"); cut {
				from = io.MultiReader(strings.NewReader(before), failing{})
			}
			chunks, err := imports.Chunks(from)
			var got []int
			for _, c := range chunks {
				got = append(got, len(c))
			}
			if diff := cmp.Diff(test.chunks, got); diff != "" || !errors.Is(err, test.err) {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// TestOrderedChunks: a chunk with an upsert is ordered, however its operation is written.
func TestOrderedChunks(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`{"operation":"novels","idempotencyKey":"1","body":{}}`:                       true,
		`{"operation" : "nov\u0065ls","idempotencyKey":"1","body":{}}`:                true,
		`{"\u006fperation":"\u006eovels","idempotencyKey":"1","body":{"a":"posts"}}`:  true,
		`{"operation":"posts","idempotencyKey":"1","body":{"content":"nov\u0065ls"}}`: false,
		`{"operation":"posts","idempotencyKey":"1","body":{"content":"\u4f60"}}`:      false,
		`{"operation":"nov\u0065ls","idempotencyKey":"1","body":{}`:                   false,
	} {
		if got := imports.Ordered([]byte("a\n" + line + "\nb")); got != want {
			t.Errorf("%s: ordered is %t", line, got)
		}
	}
}

// failing is a broken connection.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestLinesAreReadWithoutTheirEnds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	reader := imports.NewLineReader(strings.NewReader("\ufeffa\r\n" + long + "\n\r\nb\rc"))
	for _, want := range []string{"a", long[:65_537], "", "b\rc"} {
		if got, err := reader.Next(); err != nil || string(got) != want {
			t.Errorf("%.20q of %d bytes, %v; want %.20q of %d", got, len(got), err, want, len(want))
		}
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestPackedLines(t *testing.T) {
	t.Parallel()
	for _, lines := range [][][]byte{nil, {{}}, {{}, {}}, {[]byte("a"), {}, []byte("b")}} {
		got, err := imports.Repacked(lines)
		if err != nil || !slices.EqualFunc(got, lines, bytes.Equal) {
			t.Errorf("%q became %q, %v", lines, got, err)
		}
	}
}

// FuzzParseLine: a line is a command or has a problem, never both.
func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{
		`{"operation":"posts","idempotencyKey":"k","body":{"uuid":"u","username":"n","novel":"N","content":"c"}}`,
		`{"operation":"novels","idempotencyKey":"\u0022k\u0022","body":{"novel":"N"},"body":1}`, `{"erased":true}`, "", "[", "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		line, err := imports.ParseLine(raw, time.Unix(0, 0), func(ratelimit.Operation) error { return nil })
		if (err == nil) != (line.Novel != nil || line.Post != nil) {
			t.Errorf("%+v, %v", line, err)
		}
		if refused, ok := errors.AsType[*problem.Error](err); err != nil && (!ok || refused.Code == problem.CodeInternal) {
			t.Error(err)
		}
	})
}
