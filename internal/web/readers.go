package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
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
	current prometheus.Gauge
	refused prometheus.Counter
}

// NewReaders returns Readers for a number of answers that are made at the same time. Other requests wait for the time
// of a request, and then get 503.
func NewReaders(answers int) *Readers {
	return &Readers{
		making: semaphore.NewWeighted(int64(answers)), unsent: semaphore.NewWeighted(maxUnsent),
		current: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "novelgate_readers", Help: "Answers for readers that are being made.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_readers_refused_total",
			Help: "Requests of readers that were refused with 503 because too many were in progress.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (r *Readers) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements prometheus.Collector.
func (r *Readers) Collect(ch chan<- prometheus.Metric) {
	r.refused.Collect(ch)
	r.current.Collect(ch)
}

// admit calls read with a permit, for which it waits as long as ctx allows.
func (r *Readers) admit(ctx context.Context, read func() error) error {
	if r == nil {
		return read()
	}
	if !r.making.TryAcquire(1) && r.making.Acquire(ctx, 1) != nil {
		return r.busy()
	}
	r.current.Inc()
	defer func() {
		r.current.Dec()
		r.making.Release(1)
	}()
	return read()
}

// hold reserves memory for an answer until the client has taken it and release is called.
func (r *Readers) hold(size int) (release func(), err error) {
	switch {
	case r == nil || size <= receiveSize:
		return func() {}, nil
	case !r.unsent.TryAcquire(int64(size)):
		return nil, r.busy()
	default:
		return func() { r.unsent.Release(int64(size)) }, nil
	}
}

func (r *Readers) busy() error {
	r.refused.Inc()
	return problem.Unavailable(RetryAfter).WithDetail(
		"Too many readers are being answered. Repeat the request after the time in Retry-After.")
}

// caching lets browsers and proxies keep an answer for five seconds. For this time, readers may still see a comment
// that staff hid.
const caching = "public, max-age=5"

// Public serves clients without a key, within the limit of Readers. read returns the body and sets its Content-Type in
// h. Unless it sets Cache-Control, the answer may be cached for five seconds. refuse answers an error as a page; nil:
// as JSON.
//
// A client that has the body already (If-None-Match) gets 304. The body is compressed for clients that accept gzip, so
// it must contain no secret: its size could reveal a secret if it also quoted the request (BREACH).
func (k *Kit) Public(
	read func(ctx context.Context, h http.Header, r *http.Request) ([]byte, error),
	refuse func(w http.ResponseWriter, r *http.Request, err error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := k.WithTimeout(r.Context())
		defer cancel()
		h := w.Header()
		h.Add("Vary", "Accept-Encoding")
		var body []byte
		var tag string
		unchanged, compressed := false, false
		err := k.Readers.admit(ctx, func() (err error) {
			if body, err = read(ctx, h, r); err != nil {
				return fmt.Errorf("make answer: %w", err)
			}
			// A digest of the bytes, so that all replicas send the same tag. It is weak, because the compressed form has it,
			// too.
			digest := sha256.Sum256(body)
			tag = `W/"` + base64.RawURLEncoding.EncodeToString(digest[:16]) + `"`
			unchanged = matches(r.Header.Values("If-None-Match"), tag)
			compressed = !unchanged && r.Method != http.MethodHead && len(body) >= minCompressed &&
				compressible(h.Get("Content-Type")) && accepts(r.Header, "Accept-Encoding", "gzip")
			if compressed {
				body = compress(body)
			}
			return nil
		})
		release := func() {}
		if err == nil && !unchanged {
			release, err = k.Readers.hold(len(body))
		}
		if err != nil {
			if refuse == nil {
				k.Fail(w, r, err)
			} else {
				refuse(w, r, err)
			}
			return
		}
		defer release()
		h.Set("Etag", tag)
		if h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", caching)
		}
		if unchanged {
			h.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if compressed {
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method != http.MethodHead {
			send(w, body)
		}
	})
}

// send disconnects a client that takes too long. The deadline grows with what the client has taken.
func send(w http.ResponseWriter, body []byte) {
	control := http.NewResponseController(w)
	for len(body) > 0 {
		// A writer without deadlines, such as a recorder in a test, is never slow.
		_ = control.SetWriteDeadline(time.Now().Add(receiveTime)) //nolint:forbidigo // the clock of the connection
		n, err := w.Write(body[:min(receiveSize, len(body))])
		if err != nil {
			return // the client disconnected
		}
		body = body[n:]
	}
}

// minCompressed is the size from which a body is compressed. A smaller one fits into one packet as it is.
const minCompressed = 1024

// compressible excludes tiles of the ledger, which are digests, and pictures other than SVG.
func compressible(contentType string) bool {
	return contentType != "application/octet-stream" &&
		(!strings.HasPrefix(contentType, "image/") || strings.HasPrefix(contentType, "image/svg"))
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

func compress(body []byte) []byte {
	var to bytes.Buffer
	writer, _ := compressors.Get().(*gzip.Writer)
	defer compressors.Put(writer)
	writer.Reset(&to)
	_, _ = writer.Write(body) // a buffer takes everything
	_ = writer.Close()
	return to.Bytes()
}

// matches reports whether If-None-Match has the tag, by weak comparison (RFC 9110, section 13.1.2).
func matches(header []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for candidate := range strings.SplitSeq(strings.Join(header, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == tag {
			return true
		}
	}
	return false
}

// AcceptsByName reports whether the Accept header of a request lists a media type itself, with a weight above 0. A
// wildcard such as */* does not count.
func AcceptsByName(r *http.Request, mediaType string) bool {
	return accepts(r.Header, "Accept", mediaType)
}

func accepts(h http.Header, header, want string) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values(header), ","), ",") {
		if name, parameters, err := mime.ParseMediaType(part); err == nil && name == want {
			weight, err := strconv.ParseFloat(parameters["q"], 64)
			return err != nil || weight > 0
		}
	}
	return false
}
