// Package covers fetches the covers of novels from the hosts of partners, so that readers' browsers do not connect to
// these hosts.
//
// A partner chooses the address, so it is not trusted. The package connects only to public addresses, on the standard
// ports, over https, without a proxy. This also holds after redirects, and is checked after name resolution. It accepts
// an answer only if its content is a picture in a format without scripts, of at most MaxSize.
package covers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

// Limits of fetches and of the cache.
const (
	MaxSize = 1 << 20 // bytes of a picture

	fetchTimeout = 5 * time.Second // for a fetch with its redirects
	maxRedirects = 3
	maxHeader    = 16 << 10        // bytes
	maxFetches   = 16              // concurrent fetches
	cacheBytes   = 32 << 20        // of cached pictures
	cacheEntries = 4096            // cached pictures and failures
	pictureTTL   = 24 * time.Hour  // for which a picture is cached
	failureTTL   = 5 * time.Minute // for which a failure is cached
)

// Reasons why there is no picture.
var (
	ErrNoPicture = errors.New("the address leads to no picture of at most 1 MiB")
	ErrBusy      = errors.New("too many covers are being fetched")
)

// Reasons for ErrNoPicture.
var (
	errNotHTTPS  = errors.New("the address, or one to which it redirects, is not https")
	errRedirects = errors.New("too many redirects")
)

// Picture is a cover.
type Picture struct {
	Type    string // such as image/png
	Content []byte
}

// entry is a cached picture, or a recent failure.
type entry struct {
	Picture
	err error
	at  time.Time
}

// Proxy fetches covers and caches the most recently used ones, up to 32 MiB. Create it with New.
type Proxy struct {
	client *http.Client
	now    func() time.Time
	slots  *semaphore.Weighted
	flight singleflight.Group

	mu    sync.Mutex
	cache *simplelru.LRU[string, entry] // by address
	bytes int                           // of the pictures in cache
}

// New returns a Proxy with an empty cache.
func New(now func() time.Time) *Proxy { return newProxy(ssrf.New().Safe, now) }

// newProxy returns a Proxy that connects to the addresses that control allows.
func newProxy(control func(network, address string, c syscall.RawConn) error, now func() time.Time) *Proxy {
	p := &Proxy{now: now, slots: semaphore.NewWeighted(maxFetches)}
	evicted := func(_ string, old entry) { p.bytes -= len(old.Content) }
	p.cache, _ = simplelru.NewLRU(cacheEntries, evicted) // it fails only for a negative size
	p.client = &http.Client{
		Timeout: fetchTimeout,
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Control: control, Timeout: fetchTimeout}).DialContext,
			TLSHandshakeTimeout:    fetchTimeout, // net/http goes on with the handshake when the request has timed out
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConnsPerHost:    1,
			MaxIdleConns:           maxFetches,
			IdleConnTimeout:        time.Minute,
			DisableCompression:     true, // pictures are compressed already, and a small answer cannot expand
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != "https" {
				return errNotHTTPS
			}
			if len(via) > maxRedirects {
				return errRedirects
			}
			return nil
		},
	}
	return p
}

// Cover returns the picture at an address, which it caches for a day. It fails with ErrBusy, or with ErrNoPicture,
// which it caches for five minutes.
func (p *Proxy) Cover(ctx context.Context, address string) (Picture, error) {
	if e, ok := p.cached(address); ok {
		return e.Picture, e.err
	}
	// One fetch serves all waiting requests. It continues if they disconnect, and fills the cache.
	result := p.flight.DoChan(address, func() (any, error) {
		if !p.slots.TryAcquire(1) {
			return entry{err: ErrBusy}, nil
		}
		defer p.slots.Release(1)
		e := entry{at: p.now()}
		if e.Picture, e.err = p.fetch(context.WithoutCancel(ctx), address); e.err != nil {
			e.err = fmt.Errorf("%w: %w", ErrNoPicture, e.err)
		}
		p.store(address, e)
		return e, nil
	})
	select {
	case r := <-result:
		e, _ := r.Val.(entry)
		return e.Picture, e.err
	case <-ctx.Done():
		return Picture{}, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

func (p *Proxy) cached(address string) (entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.cache.Get(address)
	ttl := pictureTTL
	if e.err != nil {
		ttl = failureTTL
	}
	return e, ok && p.now().Sub(e.at) <= ttl
}

func (p *Proxy) store(address string, e entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cache.Remove(address) // Add does not call evicted for the entry that it replaces
	p.cache.Add(address, e)
	p.bytes += len(e.Content)
	for p.bytes > cacheBytes {
		p.cache.RemoveOldest()
	}
}

// pictureTypes are formats without scripts that all browsers show.
var pictureTypes = []string{"image/jpeg", "image/png", "image/webp", "image/gif"}

func (p *Proxy) fetch(ctx context.Context, address string) (Picture, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Picture{}, fmt.Errorf("make request: %w", err)
	}
	if r.URL.Scheme != "https" {
		return Picture{}, errNotHTTPS
	}
	r.Header = http.Header{"Accept": pictureTypes, "User-Agent": {"Novelgate"}}
	response, err := p.client.Do(r)
	if err != nil {
		return Picture{}, fmt.Errorf("fetch cover: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	if response.StatusCode != http.StatusOK {
		return Picture{}, fmt.Errorf("status %d", response.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, MaxSize+1))
	if err != nil {
		return Picture{}, fmt.Errorf("fetch cover: %w", err)
	}
	media := http.DetectContentType(content)
	if len(content) > MaxSize || !slices.Contains(pictureTypes, media) {
		return Picture{}, fmt.Errorf("%s, %d bytes", media, len(content))
	}
	return Picture{media, content}, nil
}
