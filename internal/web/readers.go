package web

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
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"novelgate/internal/problem"
)

// A client without a key has receiveTime to take each receiveSize bytes of its answer.
const (
	receiveSize = 64 << 10
	receiveTime = 5 * time.Second
)

// maxUnsent limits the bytes of answers larger than receiveSize that wait for their clients.
const maxUnsent = 64 << 20

// Readers is the semaphore of clients without a key. An answer needs a permit while it is made, and none while it is
// sent: a client that does not take its answer takes nothing from others. Create it with NewReaders.
type Readers struct {
	making  *semaphore.Weighted
	unsent  *semaphore.Weighted
	current atomic.Int64
	refused prometheus.Counter
	gauge   prometheus.GaugeFunc
}

// NewReaders returns Readers for a number of answers that are made at the same time. Other requests wait for the time
// of a request, and then get 503.
func NewReaders(answers int) *Readers {
	r := &Readers{making: semaphore.NewWeighted(int64(answers)), unsent: semaphore.NewWeighted(maxUnsent)}
	r.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "novelgate_readers_refused_total",
		Help: "Requests of readers that were refused with 503 because too many were in progress.",
	})
	r.gauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "novelgate_readers", Help: "Answers for readers that are being made.",
	}, func() float64 { return float64(r.current.Load()) })
	return r
}

// Describe implements prometheus.Collector.
func (r *Readers) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements prometheus.Collector.
func (r *Readers) Collect(ch chan<- prometheus.Metric) {
	r.refused.Collect(ch)
	r.gauge.Collect(ch)
}

var errBusy = problem.Unavailable(RetryAfter).WithDetail(
	"Too many readers are being answered. Repeat the request after the time in Retry-After.")

// Refusal answers a request with an error: as JSON or as a page.
type Refusal func(w http.ResponseWriter, r *http.Request, err error)

// Refuse is Fail as a Refusal.
func (k *Kit) Refuse(w http.ResponseWriter, r *http.Request, err error) { k.Fail(w, r, err) }

// Public serves clients without a key, within the limit of Readers. handler makes its whole answer before it writes it.
func (k *Kit) Public(handler http.Handler, refuse Refusal) http.Handler {
	return k.public(func(_ context.Context, w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }, refuse)
}

func (k *Kit) public(
	handle func(ctx context.Context, w http.ResponseWriter, r *http.Request), refuse Refusal,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := k.WithTimeout(r.Context())
		defer cancel()
		w.Header().Add("Vary", "Accept-Encoding")
		if k.Readers == nil {
			handle(ctx, w, r)
			return
		}
		if making := k.Readers.making; !making.TryAcquire(1) && making.Acquire(ctx, 1) != nil {
			k.Readers.refused.Inc()
			refuse(w, r, errBusy)
			return
		}
		k.Readers.current.Add(1)
		a := &readerAnswer{ResponseWriter: w, readers: k.Readers}
		a.refuse = func() {
			k.Readers.refused.Inc()
			refuse(w, r, errBusy)
		}
		defer a.made()
		handle(ctx, a, r)
	})
}

// readerAnswer is an answer to a client without a key.
type readerAnswer struct {
	http.ResponseWriter
	readers *Readers
	refuse  func() // answers with errBusy
	isMade  bool
}

// made returns the permit.
func (a *readerAnswer) made() {
	if !a.isMade {
		a.isMade = true
		a.readers.current.Add(-1)
		a.readers.making.Release(1)
	}
}

// Write disconnects a client that takes too long. The deadline grows with what the client has taken.
func (a *readerAnswer) Write(body []byte) (written int, err error) {
	a.made()
	if len(body) == 0 {
		return a.ResponseWriter.Write(body)
	}
	control := http.NewResponseController(a.ResponseWriter)
	for err == nil && written < len(body) {
		// A writer without deadlines, such as a recorder in a test, is never slow.
		_ = control.SetWriteDeadline(time.Now().Add(receiveTime)) //nolint:forbidigo // the clock of the connection
		var n int
		n, err = a.ResponseWriter.Write(body[written:min(written+receiveSize, len(body))])
		written += n
	}
	return written, err // net/http expects the error unwrapped
}

// Unwrap lets http.ResponseController reach the connection.
func (a *readerAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// RenderFunc writes the body of an answer.
type RenderFunc func(w io.Writer) error

// ReadFunc reads the data of an answer and returns the function that renders it.
type ReadFunc func(ctx context.Context, r *http.Request) (RenderFunc, error)

// Rendered is Public for answers in two steps: read reads the data, and the function that it returns renders them.
func (k *Kit) Rendered(contentType string, read ReadFunc, refuse Refusal) http.Handler {
	return k.public(func(ctx context.Context, w http.ResponseWriter, r *http.Request) {
		buffer := newBuffer()
		render, err := read(ctx, r)
		if err == nil {
			err = render(buffer)
		}
		if err != nil {
			release(buffer)
			refuse(w, r, fmt.Errorf("make answer: %w", err))
			return
		}
		send(w, r, contentType, buffer.Bytes(), buffer)
	}, refuse)
}

// maxPooled is the maximum capacity of a buffer that is reused. A few larger ones, reused for small answers, would take
// most of the service's memory.
const maxPooled = 256 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func newBuffer() *bytes.Buffer {
	buffer, _ := buffers.Get().(*bytes.Buffer)
	return buffer
}

func release(buffer *bytes.Buffer) {
	if buffer != nil && buffer.Cap() <= maxPooled {
		buffer.Reset()
		buffers.Put(buffer)
	}
}

// caching lets browsers and proxies keep an answer for five seconds. For this time, readers may still see a comment
// that staff hid.
const caching = "public, max-age=5"

// Send answers a reader with body, or with 304 when the client has it already. Unless Cache-Control is set, the answer
// may be cached for five seconds. It is compressed for clients that accept gzip, so it must contain no secret: its size
// could reveal a secret if it also quoted the request (BREACH).
func Send(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	send(w, r, contentType, body, nil)
}

// send is Send for a body in a buffer, which it releases; nil: it is not in one.
func send(w http.ResponseWriter, r *http.Request, contentType string, body []byte, buffer *bytes.Buffer) {
	defer func() { release(buffer) }()
	// A digest of the bytes, so that all replicas send the same tag. It is weak, because the compressed form has it, too.
	digest := sha256.Sum256(body)
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(digest[:16]) + `"`
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
	// Smaller answers fit into one packet as they are, and pictures other than SVG are compressed.
	if len(body) >= 1024 && (!strings.HasPrefix(contentType, "image/") || strings.HasPrefix(contentType, "image/svg")) &&
		r.Method != http.MethodHead && accepts(r.Header, "Accept-Encoding", "gzip") {
		compressed := newBuffer()
		compress(compressed, body)
		release(buffer)
		body, buffer = compressed.Bytes(), compressed
		h.Set("Content-Encoding", "gzip")
	}
	if a, ok := w.(*readerAnswer); ok && len(body) > receiveSize {
		if !a.readers.unsent.TryAcquire(int64(len(body))) {
			h.Del("Etag")
			h.Del("Content-Encoding")
			a.refuse()
			return
		}
		defer a.readers.unsent.Release(int64(len(body)))
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client disconnected
	}
}

// compressors use the fastest level of gzip: 40 kB of a page become 7 kB. zstd and brotli compress little better; each
// zstd encoder takes megabytes, and brotli is slow.
var compressors = sync.Pool{New: func() any {
	writer, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return writer
}}

func compress(to *bytes.Buffer, body []byte) {
	writer, _ := compressors.Get().(*gzip.Writer)
	defer compressors.Put(writer)
	writer.Reset(to)
	_, _ = writer.Write(body) // a buffer takes everything
	_ = writer.Close()
}

// matches reports whether If-None-Match has the tag, by weak comparison (RFC 9110, section 13.1.2).
func matches(header []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, line := range header {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == tag {
				return true
			}
		}
	}
	return false
}
