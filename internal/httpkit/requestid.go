package httpkit

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/internal/problem"
)

// maxRequestID is the longest X-Request-Id that is kept, in bytes.
const maxRequestID = 128

// WithRequestID gives every request an id: the client's own X-Request-Id when it is 1 to 128 visible ASCII
// characters, a new UUID otherwise. The answer carries it.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !validRequestID(id) {
			id = uuid.Must(uuid.NewV7()).String()
		}
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), infoKey{}, &info{id: id})))
	})
}

// info is what one request carries through its handlers.
type info struct {
	id   string
	code problem.Code // of the error that it is answered with, for the metrics
}

type infoKey struct{}

func infoOf(ctx context.Context) *info {
	if known, ok := ctx.Value(infoKey{}).(*info); ok {
		return known
	}
	return &info{}
}

// RequestID returns the id that WithRequestID gave.
func RequestID(ctx context.Context) string { return infoOf(ctx).id }

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
