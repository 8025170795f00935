package commands

import (
	"net/http"
	"strconv"
	"time"

	"novelgate/commands/access"
	"novelgate/commands/ratelimit"
)

// setRateLimit sets RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for operations: q is the
// limit, w the window in seconds, r the remaining permits, t the seconds until the window is empty. The header names
// are in canonical form.
func (a *API) setRateLimit(h http.Header, p *access.Principal, operations ...ratelimit.Operation) {
	h.Del("Ratelimit-Policy")
	h.Del("Ratelimit")
	for _, operation := range operations {
		limit, ok := perMinute(p, operation)
		if !ok {
			continue
		}
		status := a.Limiter.Status(p.IntegrationID, operation, limit)
		addRateLimit(h, string(operation), limit, ratelimit.Window, status.Remaining, status.Reset)
	}
}

// setQueryLimits sets the headers of a query: all limits of the integration and the limit of queries.
func (a *API) setQueryLimits(h http.Header, p *access.Principal) {
	a.setRateLimit(h, p, ratelimit.Posts, ratelimit.Novels, ratelimit.NovelUpdates)
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

// perMinute returns an integration's limit of an operation, and false when it has none.
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
