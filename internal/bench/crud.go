package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/request"
	"novelgate/internal/problem"
	"novelgate/internal/title"
	"novelgate/internal/web"
)

// peerCommand runs the peer that the service is compared with: the same comment endpoint as a plain handler over
// tables, with one transaction per request. It is as fast as this design allows: prepared statements, a tuned pool, one
// statement per step, time-ordered identifiers. It decodes request bodies as the service does, so only the write path
// differs. It has no rate limits and no metrics.
type peerCommand struct {
	DatabaseURL string `required:""`
	Key         string `required:"" help:"API key."`
	Pool        int32  `required:"" help:"Database connections."`
}

// Run serves until a signal. It has the time-outs of the service, because time-outs cost processor time.
func (c *peerCommand) Run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return fmt.Errorf("parse database URL: %w", err)
	}
	config.MaxConns = c.Pool
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p := &peer{
		pool: pool, key: c.Key, addresses: web.NewAddresses(&url.URL{Scheme: "http", Host: listener.Addr().String()}),
	}
	router := mux.NewRouter()
	router.HandleFunc("/api/integrations/posts", p.handlePost).Methods(http.MethodPost)
	server := &http.Server{
		Handler: router, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute,
	}
	go func() {
		<-ctx.Done()
		_ = server.Close() // no request is open
	}()
	fmt.Println("The peer is listening on", p.addresses.Public())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

//go:embed crud.sql
var peerTablesSQL string

func createPeerTables(ctx context.Context, databaseURL string) (err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, peerTablesSQL); err != nil {
		return fmt.Errorf("create the tables of the peer: %w", err)
	}
	return nil
}

// integration is the one whose comments the peer imports.
var integration = uuid.UUID{1}

type peer struct {
	pool      *pgxpool.Pool
	key       string // the API key
	addresses web.Addresses
}

// peerAnswer has the members of the service's answer.
type peerAnswer struct {
	Created      bool       `json:"created"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`

	slug string
}

// handlePost handles POST /api/integrations/posts.
func (p *peer) handlePost(w http.ResponseWriter, r *http.Request) {
	posted, err := p.post(w, r)
	if err == nil {
		posted.URL = p.addresses.Post(posted.slug, posted.PostID)
		answer := web.Answer{Body: posted}
		if posted.Created {
			answer.Status, answer.Location = http.StatusCreated, posted.URL
		}
		err = answer.Send(w)
	}
	if err != nil {
		problem.Write(w, "", err)
	}
}

// post executes a request. The error is a problem, or of the database.
func (p *peer) post(w http.ResponseWriter, r *http.Request) (answer peerAnswer, err error) {
	const maxBody = 32 << 10
	receivedAt := time.Now()
	secret, err := web.Bearer(r.Header)
	if err != nil {
		return answer, err
	}
	if sha256.Sum256([]byte(secret)) != sha256.Sum256([]byte(p.key)) {
		return answer, problem.New(problem.CodeUnauthorized, "The API key is not valid.")
	}
	body, err := web.ReadJSON(w, r, maxBody)
	if err != nil {
		return answer, err
	}
	key, err := web.IdempotencyKey(r.Header)
	if err != nil {
		return answer, err
	}
	post, err := request.DecodePost(body, receivedAt)
	if err != nil {
		return answer, err
	}
	ctx := r.Context()
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		answer, err = importPost(ctx, tx, key, post, receivedAt)
		return err
	})
	return answer, err
}

const (
	findNovelSQL = `SELECT n.novel_id, n.slug, t.thread_id
FROM novels n LEFT JOIN threads t ON t.novel_id = n.novel_id
WHERE lower(n.title) = lower($1)`

	insertNovelSQL = `INSERT INTO novels (novel_id, title, slug, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (lower(title)) DO NOTHING`

	insertThreadSQL = `INSERT INTO threads (thread_id, novel_id) VALUES ($1, $2) ON CONFLICT (novel_id) DO NOTHING`

	findParentSQL = `SELECT post_id FROM posts WHERE integration_id = $1 AND idempotency_key = $2 AND thread_id = $3`

	insertPostSQL = `INSERT INTO posts (post_id, integration_id, idempotency_key, thread_id, parent_post_id, author_uuid, username,
                   chapter_number, content, written_at, received_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::numeric, $9, $10, $11)
ON CONFLICT (integration_id, idempotency_key) DO NOTHING`

	findPostSQL = `SELECT p.post_id, p.thread_id, p.parent_post_id, n.slug
FROM posts p JOIN threads t USING (thread_id) JOIN novels n USING (novel_id)
WHERE integration_id = $1 AND p.idempotency_key = $2`
)

// importPost executes one command.
func importPost(
	ctx context.Context, tx pgx.Tx, key string, post request.Post, receivedAt time.Time,
) (answer peerAnswer, err error) {
	answer.Created, answer.PostID = true, uuid.Must(uuid.NewV7())
	if answer.ThreadID, answer.slug, err = findThread(ctx, tx, post.Title, receivedAt); err != nil {
		return answer, err
	}
	if post.ParentKey != nil {
		var parent uuid.UUID
		err := tx.QueryRow(ctx, findParentSQL, integration, *post.ParentKey, answer.ThreadID).Scan(&parent)
		if err == nil {
			answer.ParentPostID = &parent
		} else if !errors.Is(err, pgx.ErrNoRows) { // an unknown parent: store the comment as a top-level comment
			return answer, fmt.Errorf("find parent: %w", err)
		}
	}
	tag, err := tx.Exec(ctx, insertPostSQL, answer.PostID, integration, key, answer.ThreadID, answer.ParentPostID,
		post.AuthorUUID, post.Username, (*string)(post.Chapter), post.Content, post.WrittenAt, receivedAt)
	if err != nil {
		return answer, fmt.Errorf("insert post: %w", err)
	}
	if tag.RowsAffected() == 0 { // the key was used before
		answer.Created = false
		if err := tx.QueryRow(ctx, findPostSQL, integration, key).Scan(&answer.PostID, &answer.ThreadID,
			&answer.ParentPostID, &answer.slug); err != nil {
			return answer, fmt.Errorf("find post: %w", err)
		}
	}
	return answer, nil
}

// findThread returns the discussion and the slug of a novel. It creates both if necessary.
func findThread(
	ctx context.Context, tx pgx.Tx, spelling string, now time.Time,
) (thread uuid.UUID, slug string, err error) {
	var novel uuid.UUID
	var found uuid.NullUUID
	find := func() error { return tx.QueryRow(ctx, findNovelSQL, spelling).Scan(&novel, &slug, &found) }
	err = find()
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err = tx.Exec(ctx, insertNovelSQL, uuid.Must(uuid.NewV7()), spelling, title.Slug(spelling), now); err == nil {
			err = find()
		}
	}
	if err == nil && !found.Valid {
		if _, err = tx.Exec(ctx, insertThreadSQL, uuid.Must(uuid.NewV7()), novel); err == nil {
			err = find()
		}
	}
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("find or create the discussion: %w", err)
	}
	return found.UUID, slug, nil
}
