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

// Refusal answers a request with an error. Kit.Fail answers with JSON, others with a page.
type Refusal func(w http.ResponseWriter, r *http.Request, err error)

// Public serves handler to readers without a key, within the limit Kit.Readers, and with gzip for clients that accept
// it. handler must set only weak ETags, because the compressed and the plain form of an answer have the same one.
// Answers must contain no secret: the size of a compressed answer that also quotes the request could reveal it
// (BREACH).
func (k *Kit) Public(handler http.Handler, refuse Refusal) http.Handler {
	return k.Readers.Limit(compress(handler), refuse) // the limit includes the memory of encoders
}

// RenderFunc writes the body of an answer.
type RenderFunc func(w io.Writer) error

// ReadFunc reads the data of an answer and returns the function that renders it.
type ReadFunc func(ctx context.Context, r *http.Request) (RenderFunc, error)

// Rendered is Public for answers in two steps: read reads the data, and the function that it returns renders them.
// Answers have an ETag. ReadLimit.Make limits how many are rendered at a time, because rendering takes several times
// the memory of the data.
func (k *Kit) Rendered(contentType string, read ReadFunc, refuse Refusal) http.Handler {
	return k.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := k.WithTimeout(r.Context())
		defer cancel()
		render, err := read(ctx, r)
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

// maxPooled is the maximum capacity of a buffer that is reused. A few larger ones, reused for small answers, would take
// most of the service's memory.
const maxPooled = 256 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func release(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxPooled {
		buffer.Reset()
		buffers.Put(buffer)
	}
}

// compressFrom is the size, in bytes, from which answers are compressed: a smaller one fits into one packet as it is.
const compressFrom = 1024

// compress compresses with the fastest level of gzip: 40 kB of a page become 7 kB. zstd and brotli compress little
// better; each zstd encoder takes megabytes, and brotli is slow.
var compress = newCompress()

func newCompress() func(http.Handler) http.HandlerFunc {
	wrapper, err := gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrapper
}

// caching lets browsers and proxies keep an answer for five seconds. For this time, readers may still see a comment
// that staff hid.
const caching = "public, max-age=5"

// Send answers a reader with body, or with 304 when the client has it already. Unless Cache-Control is set, the answer
// may be cached for five seconds. The ETag is a digest of the bytes, so all replicas send the same one. It is weak,
// because the compressed form has it, too.
func Send(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	digest := sha256.Sum256(body)
	tag := weak + `"` + base64.RawURLEncoding.EncodeToString(digest[:16]) + `"` // 128 bits of the digest
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
		_, _ = w.Write(body) // an error means that the client disconnected
	}
}

// weak is the prefix of a weak tag.
const weak = "W/"

// matches reports whether If-None-Match has the tag, by weak comparison (RFC 9110, section 13.1.2).
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
