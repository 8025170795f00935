package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"novelgate/internal/bench/contest"
)

// CatalogueCommand is `bench catalogue`. Everything about a request derives from the row or the ordinal, so a second
// run repeats the first one exactly, and the service must recognise every request.
type CatalogueCommand struct {
	CSV         string `name:"csv" required:"" type:"existingfile" placeholder:"FILE" help:"CSV file with the columns title, authors, language_code, image_url and, for the idempotency keys, book_id."`
	URL         string `name:"url" required:"" placeholder:"URL" help:"Address of the service."`
	Key         string `required:"" env:"NOVELGATE_API_KEY" placeholder:"KEY" help:"API key of an integration with both capabilities."`
	Connections int    `default:"16" help:"Requests in flight at a time."`
	Comments    int    `default:"50000" help:"How many comments to import."`
	Repeat      bool   `default:"true" negatable:"" help:"Then send everything once more: all that was accepted must be recognised."`
}

var errNotRecognised = errors.New("the repetition was not recognised as such")

// Run prints what became of the novels and the comments.
func (c *CatalogueCommand) Run(ctx context.Context) error {
	c.Connections = max(c.Connections, 1)
	file, err := os.Open(c.CSV)
	if err != nil {
		return fmt.Errorf("open the catalogue: %w", err)
	}
	defer func() { _ = file.Close() }()
	novels, err := readNovels(file)
	if err != nil {
		return fmt.Errorf("read the catalogue: %w", err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: c.Connections}
	defer transport.CloseIdleConnections()
	client := &partner{
		url: strings.TrimRight(c.URL, "/"), apiKey: c.Key,
		http: &http.Client{Transport: transport, Timeout: time.Minute},
	}
	if _, err := c.load(ctx, client, novels, ""); err != nil || !c.Repeat {
		return err
	}
	again, err := c.load(ctx, client, novels, " again")
	if err != nil {
		return err
	}
	// Novels that belong to another integration leave no record, so they repeat rather than replay.
	if fresh := again["created"] + again["updated"] + again[mismatched]; fresh > 0 {
		return fmt.Errorf("%w: %d were carried out again or differed", errNotRecognised, fresh)
	}
	return nil
}

// load sends everything, and returns how many answers of each kind there were.
func (c *CatalogueCommand) load(
	ctx context.Context, client *partner, novels []novel, again string,
) (map[string]int, error) {
	known := make([]bool, len(novels))
	counts, err := c.share(ctx, "novels"+again, len(novels), func(ctx context.Context, i int) (answer, error) {
		a, err := client.send(ctx, "/api/integrations/novels", novels[i].key, novels[i])
		known[i] = a.status < http.StatusBadRequest
		return a, err
	})
	if err != nil {
		return nil, err
	}
	comments := composer{n: c.Comments, stride: c.Connections}
	for i, novel := range novels {
		if known[i] {
			comments.titles = append(comments.titles, novel.Title)
		}
	}
	if len(comments.titles) == 0 {
		return counts, nil
	}
	more, err := c.share(ctx, "comments"+again, c.Comments, func(ctx context.Context, i int) (answer, error) {
		return client.send(ctx, postsPath, commentKey(i), comments.compose(i))
	})
	for what, n := range more {
		counts[what] += n
	}
	return counts, err
}

// share lets all connections work, prints what came of it, and returns that. Each connection gets the numbers below n
// that are its own modulo their number, in order.
func (c *CatalogueCommand) share(
	ctx context.Context, what string, n int, work func(ctx context.Context, i int) (answer, error),
) (map[string]int, error) {
	start := time.Now()
	var mu sync.Mutex
	counts := map[string]int{}
	group, ctx := errgroup.WithContext(ctx)
	for own := range c.Connections {
		group.Go(func() error {
			for i := own; i < n; i += c.Connections {
				a, err := work(ctx, i)
				if err != nil {
					return err
				}
				mu.Lock()
				for _, kind := range a.kinds() {
					counts[kind]++
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("send %s: %w", what, err)
	}
	fmt.Printf("%s: %d sent in %.1f s\n", what, n, time.Since(start).Seconds())
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("  %d %s\n", counts[kind], kind)
	}
	return counts, nil
}

// novel is one row of a catalogue.
type novel struct {
	key      string // idempotency key
	Title    string `json:"novel"`
	Author   string `json:"author,omitempty"`
	Language string `json:"language,omitempty"`
	CoverURL string `json:"coverUrl,omitempty"`
}

var errColumn = errors.New("the catalogue has no column title")

// readNovels reads a CSV file with a header, of which only title must be there. A key is made of the column book_id,
// or of the whole row when there is no such column.
func readNovels(r io.Reader) ([]novel, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, errors.Join(errColumn, err)
	}
	columns := map[string]int{}
	for i, name := range rows[0] {
		columns[strings.TrimPrefix(name, "\ufeff")] = i
	}
	if _, ok := columns["title"]; !ok {
		return nil, errColumn
	}
	novels := make([]novel, len(rows)-1)
	for n, row := range rows[1:] {
		field := func(name string) string {
			if i, ok := columns[name]; ok {
				return row[i]
			}
			return ""
		}
		key := "book-" + field("book_id")
		if key == "book-" {
			sum := sha256.Sum256([]byte(strings.Join(row, "\x00")))
			key = "row-" + hex.EncodeToString(sum[:12])
		}
		novels[n] = novel{key, field("title"), field("authors"), field("language_code"), field("image_url")}
	}
	return novels, nil
}

// comment is the body of one comment.
type comment struct {
	UUID          string   `json:"uuid"`
	Username      string   `json:"username"`
	Novel         string   `json:"novel"`
	Content       string   `json:"content"`
	ChapterNumber *float64 `json:"chapterNumber,omitempty"`
	Timestamp     string   `json:"timestamp,omitempty"`
	ParentUUID    string   `json:"parent_uuid,omitempty"`
}

func commentKey(i int) string { return "catalogue-comment-" + strconv.Itoa(i) }

// composer makes n comments about titles. Comments i, i + stride, i + 2 × stride, … are sent one after another, and a
// reply answers one of its own series, so that its parent is always there before it.
type composer struct {
	titles    []string
	n, stride int
}

func (c composer) compose(i int) comment {
	const replies = 0.3
	// A series takes every stride-th novel in turn, so after span turns it is back at the same one.
	span := max(1, len(c.titles)/c.stride)
	turn := i / c.stride % span
	rng := rand.New(rand.NewPCG(uint64(i), 2026)) //nolint:gosec // not a secret, never negative
	user := rng.IntN(min(max(c.n/50, 20), 3000))
	written := time.Date(2025, 1, 1, 0, 0, i, 0, time.UTC)
	made := comment{
		UUID: "reader-" + strconv.Itoa(user), Username: "Reader " + strconv.Itoa(user),
		Novel: c.titles[(i%c.stride+turn*c.stride)%len(c.titles)], Content: contest.Content(rng),
	}
	if rng.IntN(4) == 0 { // under another name now and then
		made.Username += ", " + strconv.Itoa(2+rng.IntN(3))
	}
	if rng.IntN(8) == 0 { // delivered late
		written = written.Add(-time.Duration(rng.Int64N(int64(5 * 365 * 24 * time.Hour)))).Truncate(time.Millisecond)
	}
	made.Timestamp = written.Format(time.RFC3339Nano)
	if chapter := rng.IntN(400); chapter < 300 {
		number := float64(chapter) / 2 // every other one is an interlude
		made.ChapterNumber = &number
	}
	// The first comment on a novel has nothing to answer: the others make up for it.
	if first := span * c.stride; i >= first && rng.Float64() < replies*float64(c.n)/float64(c.n-first) {
		made.ParentUUID = commentKey(i - first)
	}
	return made
}

// partner sends the requests of one integration.
type partner struct {
	url, apiKey string
	http        *http.Client
}

const postsPath = "/api/integrations/posts"

// answer is what matters of a response.
type answer struct {
	status   int
	replayed bool
	mismatch bool
	waits    int // how often the service asked to come back later

	Created, Updated, Canonical bool
	PostID                      string
	ParentPostID                *string
	Code, Field                 string
}

const mismatched = "replayed WITH A MISMATCH"

// kinds are what the answer counts as.
func (a answer) kinds() []string {
	var kinds []string
	for kind, is := range map[string]bool{
		mismatched: a.mismatch, "below a parent": a.ParentPostID != nil, "told to wait": a.waits > 0,
	} {
		if is {
			kinds = append(kinds, kind)
		}
	}
	switch {
	case a.status >= http.StatusBadRequest:
		return append(kinds, strings.TrimSpace(fmt.Sprintf("refused: %d %s %s", a.status, a.Code, a.Field)))
	case a.replayed:
		return append(kinds, "replayed")
	case a.Created:
		return append(kinds, "created")
	case a.Updated:
		return append(kinds, "updated")
	case a.Canonical:
		return append(kinds, "canonical")
	}
	return append(kinds, "of another integration")
}

// send delivers a command. While the service says 429 or 503 it waits as long as Retry-After says and tries again.
func (p *partner) send(ctx context.Context, path, key string, command any) (answer, error) {
	body, err := json.Marshal(command)
	if err != nil {
		return answer{}, fmt.Errorf("encode %s: %w", key, err)
	}
	for waits := 0; ; waits++ {
		a, pause, err := p.try(ctx, path, key, body)
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

func (p *partner) try(ctx context.Context, path, key string, body []byte) (a answer, pause time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, bytes.NewReader(body))
	if err != nil {
		return a, 0, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+p.apiKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := p.http.Do(request)
	if err != nil {
		return a, 0, fmt.Errorf("send: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
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
