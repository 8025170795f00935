// Package crud is the peer that the service is measured against: the same comment endpoint as a plain handler over
// tables, one transaction per request. It is meant to be as good as this shape gets: prepared statements, a pool of
// a sensible size, one statement per step, time-ordered identifiers, and the same decoder of request bodies as the
// service, so that only the write path differs. It counts no requests and keeps no metrics.
package crud

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/request"
	"novelgate/internal/problem"
)

// maxBody is the largest request body, in bytes.
const maxBody = 32 << 10

// server imports the comments of one integration.
type server struct {
	pool          *pgxpool.Pool
	keySum        [sha256.Size]byte // of its API key
	integrationID uuid.UUID
	publicURL     string // what URLs in answers begin with
}

// Open returns the handler of POST /api/integrations/posts, over so many connections to a database, and what closes
// them.
func Open(ctx context.Context, databaseURL string, connections int32, apiKey string, integrationID uuid.UUID,
	publicURL string,
) (http.Handler, func(), error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, nil, fmt.Errorf("parse database URL: %w", err)
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("open pool: %w", err)
	}
	s := &server{pool: pool, keySum: sha256.Sum256([]byte(apiKey)), integrationID: integrationID, publicURL: publicURL}
	router := mux.NewRouter()
	router.HandleFunc("/api/integrations/posts", s.handlePost).Methods(http.MethodPost)
	return router, pool.Close, nil
}

// answer has the members of the service's own answer.
type answer struct {
	Created      bool       `json:"created"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`
}

// handlePost handles the POST /api/integrations/posts route.
func (s *server) handlePost(w http.ResponseWriter, r *http.Request) {
	result, err := s.post(r)
	if err != nil {
		problem.Write(w, "", err)
		return
	}
	id := result.postID.String()
	body := answer{
		Created: result.created, PostID: result.postID, ThreadID: result.threadID, ParentPostID: result.parentID,
		URL: s.publicURL + "/novels/" + result.slug + "/discussion?post=" + id + "#post-" + id,
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		problem.Write(w, "", fmt.Errorf("encode answer: %w", err))
		return
	}
	status := http.StatusOK
	if result.created {
		status = http.StatusCreated
		w.Header().Set("Location", body.URL)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded) // a failing connection is the client's affair
}

func (s *server) post(r *http.Request) (stored, error) {
	receivedAt := time.Now()
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || sha256.Sum256([]byte(secret)) != s.keySum {
		return stored{}, problem.Unauthorized("The API key is not valid.")
	}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
		mediaType != "application/json" {
		return stored{}, problem.UnsupportedMediaType(r.Header.Get("Content-Type"))
	}
	if r.ContentLength < 0 || r.ContentLength > maxBody {
		return stored{}, problem.PayloadTooLarge(maxBody)
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return stored{}, problem.MalformedBody("The request body ended early.").WithCause(err)
	}
	key, err := request.IdempotencyKey(r.Header)
	if err != nil {
		return stored{}, err // already a problem
	}
	post, err := request.DecodePost(body, receivedAt)
	if err != nil {
		return stored{}, err // already a problem
	}
	return s.importPost(r.Context(), s.integrationID, key, post, receivedAt)
}
