package imports

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"

	"novelgate/commands/ratelimit"
	"novelgate/internal/problem"
)

// Limits of a part.
const (
	MaxPartLines = 10_000
	MaxPartBytes = 16 << 20 // unpacked
)

// Limits of a chunk. They keep the transaction that stores one short, because readers of the log wait for it.
const (
	chunkLines = 1_000
	chunkBytes = 1 << 20
)

// maxWindow limits the memory of a zstd decoder: the largest window of the content coding zstd (RFC 9659), in bytes.
const maxWindow = 8 << 20

// Memory for the receipt of a part, in bytes: its chunk and its decoder.
const (
	plainMemory = 2*chunkBytes + 2*maxLine
	zstdMemory  = plainMemory + maxWindow
)

var errTooManyBytes = problem.PayloadTooLarge(MaxPartBytes).WithDetail(
	fmt.Sprintf("A part has at most %d bytes of unpacked lines.", MaxPartBytes))

var errTooManyLines = problem.PayloadTooLarge(MaxPartBytes).WithDetail(
	fmt.Sprintf("A part has at most %d lines.", MaxPartLines))

// contentCoding returns the content coding of a request body, in lower case; "" for none.
func contentCoding(header http.Header) string {
	coding := strings.ToLower(strings.TrimSpace(header.Get("Content-Encoding")))
	if coding == "identity" {
		return ""
	}
	return coding
}

// zstdCoding is the content coding whose decoder needs much memory.
const zstdCoding = "zstd"

// unpack returns a reader of the unpacked body in a content coding.
func unpack(coding string, body io.Reader) (unpacked io.ReadCloser, err error) {
	switch coding {
	case "":
		return io.NopCloser(body), nil
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	case zstdCoding:
		decoder, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	default:
		return nil, errCoding
	}
}

// errCoding refuses an unknown content coding.
var errCoding = (&problem.Error{Code: problem.CodeUnsupportedMediaType}).WithDetail(
	"The Content-Encoding must be gzip or zstd, or absent.")

// part reads the lines of a part, chunk by chunk.
type part struct {
	lines  *LineReader
	sha256 hash.Hash // of the unpacked bytes read so far, which may be ahead of the lines
	before int64     // lines of the import before the part

	count      int64  // lines in the chunks so far
	pending    []byte // if hasPending: the first line of the next chunk
	hasPending bool
}

func newPart(unpacked io.ReadCloser, before int64) *part {
	p := &part{sha256: sha256.New(), before: before}
	p.lines = NewLineReader(io.TeeReader(http.MaxBytesReader(nil, unpacked, MaxPartBytes), p.sha256))
	return p
}

// chunk is a number of consecutive lines of an import.
type chunk struct {
	first   int64 // lines of the import before it
	lines   [][]byte
	ordered bool // may have upserts of novels: see Workers in doc.go
	last    bool // of its part
}

// next returns the next chunk, and io.EOF after the last one. A part without lines has no chunk. It reads one line
// beyond a full chunk, so that it knows whether the chunk is the last.
func (p *part) next() (chunk, error) {
	c := chunk{first: p.before + p.count}
	size := 0
	for {
		line := p.pending
		if !p.hasPending {
			var err error
			line, err = p.lines.Next()
			if errors.Is(err, io.EOF) {
				c.last = true
				if len(c.lines) == 0 {
					return c, io.EOF
				}
				return c, nil
			}
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
				err = errTooManyBytes
			}
			if err != nil {
				return c, err
			}
		}
		p.hasPending = false
		if len(c.lines) == chunkLines || len(c.lines) > 0 && size+len(line) > chunkBytes {
			p.pending, p.hasPending = line, true
			return c, nil
		}
		if p.count == MaxPartLines {
			return c, errTooManyLines
		}
		p.count++
		size += len(line) + 1
		c.lines = append(c.lines, line)
		c.ordered = c.ordered || mayUpsert(line)
	}
}

// mayUpsert reports whether a line may be an upsert. JSON may write its operation with escapes.
func mayUpsert(line []byte) bool {
	if bytes.Contains(line, []byte(`"novels"`)) {
		return true
	}
	if !bytes.Contains(line, []byte(`\u`)) {
		return false
	}
	e, err := readEnvelope(line)
	return err == nil && e.operation.value == string(ratelimit.Novels)
}

// LineReader reads lines.
type LineReader struct{ from *bufio.Reader }

// NewLineReader returns a LineReader.
func NewLineReader(from io.Reader) *LineReader {
	return &LineReader{bufio.NewReaderSize(from, maxLine+2)}
}

var byteOrderMark = []byte("\ufeff")

// Next returns the next line, without its end and a byte order mark, or io.EOF. A line that is too long is cut to
// maxLine plus one byte, and keeps a byte order mark.
func (r *LineReader) Next() ([]byte, error) {
	line, err := r.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		kept := bytes.Clone(line[:maxLine+1])
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.from.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err // the caller distinguishes the errors
		}
		return kept, nil
	case errors.Is(err, io.EOF) && len(line) > 0: // the last line has no line end
	case err != nil:
		return nil, err // as above
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	return bytes.Clone(bytes.TrimPrefix(line, byteOrderMark)), nil
}

// sum returns the SHA-256 of the unpacked part, once next has returned io.EOF or the last chunk.
func (p *part) sum() []byte { return p.sha256.Sum(nil) }

// The coders of chunks. They are safe for concurrent use.
var (
	packer = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderConcurrency(1)))
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)))
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return value
}

// packLines returns lines as zstd of NDJSON.
func packLines(lines [][]byte) []byte {
	if len(lines) == 0 {
		return []byte{}
	}
	return packer.EncodeAll(append(bytes.Join(lines, []byte("\n")), '\n'), nil)
}

// unpackLines is the inverse of packLines.
func unpackLines(packed []byte) ([][]byte, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	plain, err := unpacker.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack lines: %w", err)
	}
	return bytes.Split(bytes.TrimSuffix(plain, []byte("\n")), []byte("\n")), nil
}
