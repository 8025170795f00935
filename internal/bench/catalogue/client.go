package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Client sends the requests of one integration.
type Client struct {
	URL         string // of the service
	APIKey      string
	Connections int
	HTTP        *http.Client
	Now         func() time.Time
}

const postsPath = "/api/integrations/posts"

// answer is what matters of a response.
type answer struct {
	status   int
	replayed bool
	mismatch bool
	waits    int // how often the service asked to come back later

	Created      bool    `json:"created"`
	Updated      bool    `json:"updated"`
	Canonical    bool    `json:"canonical"`
	PostID       string  `json:"postId"`
	ParentPostID *string `json:"parentPostId"`
	Code         string  `json:"code"`
	Field        string  `json:"field"`
}

// accepted reports whether the service carried the command out, now or earlier.
func (a answer) accepted() bool { return a.status == http.StatusCreated || a.status == http.StatusOK }

// Import delivers one comment, once, and returns the id of its post. Anything but a new post is an error.
func (c *Client) Import(ctx context.Context, key string, comment any) (postID string, err error) {
	body, err := json.Marshal(comment)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", key, err)
	}
	a, _, err := c.try(ctx, postsPath, key, body)
	if err != nil {
		return "", fmt.Errorf("deliver %s: %w", key, err)
	}
	if a.status != http.StatusCreated {
		return "", fmt.Errorf("deliver %s: status %d %s", key, a.status, a.Code)
	}
	return a.PostID, nil
}

// send delivers a command. While the service says 429 or 503 it waits as long as Retry-After says and tries again.
func (c *Client) send(ctx context.Context, path, key string, command any) (answer, error) {
	body, err := json.Marshal(command)
	if err != nil {
		return answer{}, fmt.Errorf("encode %s: %w", key, err)
	}
	for waits := 0; ; waits++ {
		a, pause, err := c.try(ctx, path, key, body)
		if err != nil {
			return answer{}, fmt.Errorf("deliver %s: %w", key, err)
		}
		a.waits = waits
		if a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
			return a, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return answer{}, fmt.Errorf("wait to repeat %s: %w", key, ctx.Err())
		}
	}
}

func (c *Client) try(ctx context.Context, path, key string, body []byte) (a answer, pause time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.URL, "/")+path,
		bytes.NewReader(body))
	if err != nil {
		return a, 0, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.APIKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := c.HTTP.Do(request)
	if err != nil {
		return a, 0, fmt.Errorf("send: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return a, 0, fmt.Errorf("read answer: %w", err)
	}
	if err := json.Unmarshal(content, &a); err != nil {
		return a, 0, fmt.Errorf("decode answer with status %d: %w", response.StatusCode, err)
	}
	a.status = response.StatusCode
	a.replayed = response.Header.Get("Idempotent-Replayed") == "true"
	a.mismatch = response.Header.Get("Idempotency-Mismatch") == "true"
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		seconds = 1
	}
	return a, time.Duration(seconds) * time.Second, nil
}
