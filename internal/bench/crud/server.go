package crud

import (
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

// Server imports comments.
type Server struct {
	Pool      *pgxpool.Pool
	Keys      map[[sha256.Size]byte]uuid.UUID // integrations by the SHA-256 of their API key
	PublicURL string                          // what URLs in answers begin with
	Now       func() time.Time
}

// Handler returns the routes of the server: POST /api/integrations/posts.
func (s *Server) Handler() http.Handler {
	router := mux.NewRouter()
	router.HandleFunc("/api/integrations/posts", s.handlePost).Methods(http.MethodPost)
	return router
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
func (s *Server) handlePost(w http.ResponseWriter, r *http.Request) {
	result, err := s.post(r)
	if err != nil {
		problem.Write(w, "", err)
		return
	}
	id := result.postID.String()
	body := answer{
		Created: result.created, PostID: result.postID, ThreadID: result.threadID, ParentPostID: result.parentID,
		URL: s.PublicURL + "/novels/" + result.slug + "/discussion?post=" + id + "#post-" + id,
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

func (s *Server) post(r *http.Request) (stored, error) {
	receivedAt := s.Now()
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	integrationID, known := s.Keys[sha256.Sum256([]byte(secret))]
	if !ok || !known {
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
	return s.importPost(r.Context(), integrationID, key, post, receivedAt)
}
