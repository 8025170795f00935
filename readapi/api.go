package readapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"

	"novelgate/commands/problem"
	"novelgate/readapi/answer"
	"novelgate/readapi/question"
	"novelgate/readapi/reading"
)

// API serves the public as JSON: novels, discussions, comments. No key is needed.
type API struct {
	Reader    *reading.Reader
	Addresses answer.Addresses
	Logger    *slog.Logger
	Timeout   time.Duration                                                  // within which every request is answered
	Refuse    func(w http.ResponseWriter, r *http.Request, p *problem.Error) // answers with an error, as all routes do
	// how many are answered at a time; nil: any number
	Readers *answer.Readers

	failures answer.Failures
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	for path, handle := range map[string]query{
		"/api/novels":                   a.novels,
		"/api/novels/{slug}":            a.novel,
		"/api/novels/{slug}/discussion": a.discussion,
		"/api/posts/{postId}":           a.post,
	} {
		router.Handle(path, a.Readers.Limit(answer.Compress(a.handler(handle)), a.Refuse)).Methods(http.MethodGet,
			http.MethodHead)
	}
}

// query answers a request with what becomes the JSON body.
type query func(ctx context.Context, r *http.Request) (any, error)

func (a *API) handler(answerTo query) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
		defer cancel()
		if err := question.WellFormed(r.URL); err != nil {
			a.refuse(w, r, err)
			return
		}
		body, err := answerTo(ctx, r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		buffer, free := answer.Buffer()
		defer free()
		if err := a.Readers.Render(func() error { return json.MarshalWrite(buffer, body) }); err != nil {
			a.refuse(w, r, fmt.Errorf("encode answer: %w", err))
			return
		}
		answer.Send(w, r, "application/json", buffer.Bytes())
	})
}

func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := answer.Problem(err)
	a.failures.Log(r, a.Logger, "answer for programs", p, slog.Any("error", err))
	a.Refuse(w, r, p)
}
