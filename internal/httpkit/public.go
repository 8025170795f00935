package httpkit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

// Refusal answers a request with an error, in the form that its readers expect.
type Refusal func(w http.ResponseWriter, r *http.Request, err error)

// Refuse is the Refusal of programs.
func (k *Kit) Refuse(w http.ResponseWriter, r *http.Request, err error) { k.Fail(w, r, err) }

// Public lets handler answer readers, who need no key: no more of them at a time than Readers allows, and with gzip for
// those who take it (Accept-Encoding). What handler sets as ETag must be a weak one, because both forms have it. It is
// for answers that hold no secret: beside what a request says, their size would tell it (BREACH).
func (k *Kit) Public(handler http.Handler, refuse Refusal) http.Handler {
	return k.Readers.Limit(compress(handler), refuse) // encoders take memory, so the limit is around them
}

// Rendering writes the body of an answer.
type Rendering func(w io.Writer) error

// Reading reads what a request asks for. Rendering it takes several times its size in memory.
type Reading func(ctx context.Context, r *http.Request) (Rendering, error)

// Rendered is Public with answers that are read and then rendered. Readers get them with a validator.
func (k *Kit) Rendered(contentType string, read Reading, refuse Refusal) http.Handler {
	return k.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := k.WithTimeout(r.Context())
		defer cancel()
		render, err := k.read(ctx, r, read)
		if err != nil {
			refuse(w, r, err)
			return
		}
		buffer, _ := buffers.Get().(*bytes.Buffer)
		defer release(buffer)
		if err := k.Readers.Make(ctx, func() error { return render(buffer) }); err != nil {
			refuse(w, r, fmt.Errorf("render answer: %w", err))
			return
		}
		Send(w, r, contentType, buffer.Bytes())
	}), refuse)
}

// read reads from a standby, if one may be used, and from the primary if that fails for any reason: a standby may go
// away, cancel a statement for its recovery, or lack what a client has just written. It has half of the time.
func (k *Kit) read(ctx context.Context, r *http.Request, read Reading) (Rendering, error) {
	if standby, used, ok := k.Standbys.Choose(ctx); ok {
		standby, cancel := context.WithTimeout(standby, k.Timeout/2)
		render, err := read(standby, r)
		cancel()
		used(err == nil)
		if err == nil {
			return render, nil
		}
	}
	return read(ctx, r)
}

// keptBuffer is the largest buffer that is used again. A few larger answers, kept for later ones that are not, would be
// most of the memory that the service takes.
const keptBuffer = 256 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func release(buffer *bytes.Buffer) {
	if buffer.Cap() <= keptBuffer {
		buffer.Reset()
		buffers.Put(buffer)
	}
}

// compressFrom is the size, in bytes, from which an answer is compressed: a smaller one fits into a packet either way.
const compressFrom = 1024

// compress is gzip at its fastest: of a page of 40 kB it makes 7 (BenchmarkCompress). Neither zstd, whose encoders take
// megabytes each, nor brotli, which is slow, gains much on that.
var compress = newCompress()

func newCompress() func(http.Handler) http.HandlerFunc {
	wrapper, err := gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrapper
}

// caching lets browsers and proxies keep an answer for a few seconds: so long may a comment that staff hid still be
// seen.
const caching = "public, max-age=5"

// Send answers a reader with body, or with 304 when the client has it already. It may be kept for five seconds, unless
// Cache-Control is set. The ETag is a digest of the bytes, the
// same on all replicas, and a weak one, because the compressed form has it too.
func Send(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	digest := sha256.Sum256(body)
	var quoted [4 + 22]byte // 128 bits of it
	copy(quoted[:], weak+`"`)
	quoted[len(quoted)-1] = '"'
	base64.RawURLEncoding.Encode(quoted[len(weak)+1:], digest[:16])
	tag := string(quoted[:])

	h := w.Header()
	h.Set("Etag", tag)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", caching)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a failing connection is the client's affair
	}
}

// weak begins a weak tag.
const weak = "W/"

// matches reports whether If-None-Match holds the tag, by weak comparison (RFC 9110, section 13.1.2).
func matches(header []string, tag string) bool {
	tag = strings.TrimPrefix(tag, weak)
	for _, line := range header {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, weak) == tag {
				return true
			}
		}
	}
	return false
}
