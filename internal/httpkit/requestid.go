package httpkit

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/internal/problem"
)

// maxRequestID is the maximum length of an accepted X-Request-Id, in bytes.
const maxRequestID = 128

// WithRequestID gives every request an id: the client's own X-Request-Id if it is 1 to 128 visible ASCII characters,
// otherwise a new UUID. The answer has the same id.
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

// info is the data of one request that its handlers share.
type info struct {
	id   string
	code problem.Code // of the error in the answer, for metrics
}

type infoKey struct{}

// infoOf returns the data of a request, for reading and writing; empty data outside of WithRequestID.
func infoOf(ctx context.Context) *info {
	if known, ok := ctx.Value(infoKey{}).(*info); ok {
		return known
	}
	return &info{}
}

// RequestID returns the id that WithRequestID set.
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
