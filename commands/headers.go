package commands

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/access"
	"novelgate/commands/problem"
	"novelgate/commands/ratelimit"
)

// maxRequestID is the longest X-Request-Id that is kept, in bytes.
const maxRequestID = 128

// WithRequestID gives every request an id: the client's own X-Request-Id when it is 1 to 128 visible ASCII
// characters, a fresh UUID otherwise. The answer carries it.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !validRequestID(id) {
			id = uuid.Must(uuid.NewV7()).String()
		}
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, &requestInfo{id: id})))
	})
}

// requestInfo is what one request carries through its handlers.
type requestInfo struct {
	id   string
	code problem.Code // of the error that it is answered with
}

type requestKey struct{}

func infoOf(ctx context.Context) *requestInfo {
	if info, ok := ctx.Value(requestKey{}).(*requestInfo); ok {
		return info
	}
	return &requestInfo{}
}

// RequestID returns the id that WithRequestID gave.
func RequestID(ctx context.Context) string { return infoOf(ctx).id }

// NoteError records the error code of the answer for the metrics.
func NoteError(ctx context.Context, code problem.Code) { infoOf(ctx).code = code }

func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// traceParentPattern is version 00 of the W3C Trace Context header.
var traceParentPattern = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Identifiers of a trace and of a parent that are all zeros are invalid.
const (
	noTrace  = "00-00000000000000000000000000000000-"
	noParent = "-0000000000000000-"
)

// traceParent returns the request's trace context, "" when there is no valid one.
func traceParent(r *http.Request) string {
	header := r.Header.Get("Traceparent")
	if header == "" || !traceParentPattern.MatchString(header) || strings.HasPrefix(header, noTrace) ||
		strings.Contains(header, noParent) {
		return ""
	}
	return header
}

// setRateLimit sets RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for operations: q is the
// limit, w the window in seconds, r what is left of it, t the seconds until all of it is back. The names are in the
// form that net/http sends.
func setRateLimit(h http.Header, p *access.Principal, limiter Limiter, operations ...ratelimit.Operation) {
	h.Del("Ratelimit-Policy")
	h.Del("Ratelimit")
	for _, operation := range operations {
		limit, ok := perMinute(p, operation)
		if !ok {
			continue
		}
		status := limiter.Status(p.IntegrationID, operation, limit)
		addRateLimit(h, string(operation), limit, ratelimit.Window, status.Remaining, status.Reset)
	}
}

// setQueryLimits sets the same for queries, which belong to no operation: all limits of the integration, and their own.
func (a *API) setQueryLimits(h http.Header, p *access.Principal) {
	setRateLimit(h, p, a.Limiter, ratelimit.Posts, ratelimit.Novels, ratelimit.NovelUpdates)
	remaining, reset := a.guard.status(p.IntegrationID)
	addRateLimit(h, "queries", queriesPerWindow, queryWindow, remaining, reset)
}

func addRateLimit(h http.Header, name string, limit int, window time.Duration, remaining int, reset time.Duration) {
	add := func(field, parameters string) {
		if before := h.Get(field); before != "" {
			parameters = before + ", " + parameters
		}
		h.Set(field, parameters)
	}
	add("Ratelimit-Policy", `"`+name+`";q=`+strconv.Itoa(limit)+";w="+strconv.Itoa(int(window/time.Second)))
	add("Ratelimit", `"`+name+`";r=`+strconv.Itoa(remaining)+";t="+strconv.Itoa(wholeSeconds(reset)))
}

// perMinute is an integration's limit of an operation; false when it has none.
func perMinute(p *access.Principal, operation ratelimit.Operation) (limit int, ok bool) {
	switch {
	case operation == ratelimit.Posts:
		return p.PostsPerMinute, true
	case operation == ratelimit.Novels:
		return p.NovelsPerMinute, true
	case p.NovelUpdatesPerMinute != nil:
		return *p.NovelUpdatesPerMinute, true
	default:
		return 0, false
	}
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
