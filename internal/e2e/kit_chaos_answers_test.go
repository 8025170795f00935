package e2e_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"novelgate/internal/testdb"
)

// command is one command and what is known of its fate.
type command struct {
	path, key string
	title     string
	body      []byte
	parent    *command // the comment that this one replies to

	tries    int
	created  bool         // one of the answers was 201
	answered *identifiers // nil while nothing was acknowledged
}

// identifiers are what an answer names, whichever operation it is about.
type identifiers struct {
	NovelID      uuid.UUID  `json:"novelId"`
	Slug         string     `json:"slug"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`
}

// stream is the stream that holds the command's own event.
func (i *identifiers) stream() uuid.UUID {
	if i.PostID != uuid.Nil {
		return i.PostID
	}
	return i.NovelID
}

func (i *identifiers) equal(other *identifiers) bool {
	a, b := *i, *other
	parents := a.ParentPostID == nil && b.ParentPostID == nil ||
		a.ParentPostID != nil && b.ParentPostID != nil && *a.ParentPostID == *b.ParentPostID
	a.ParentPostID, b.ParentPostID = nil, nil
	return parents && a == b
}

// deliveryBook is a partner's own record of what it has sent and what it was told.
type deliveryBook struct {
	t testing.TB

	mu           sync.Mutex
	commands     []*command
	acknowledged int
	statuses     map[int]int // 0: no answer
	surprises    int
}

func newDeliveryBook(t testing.TB) *deliveryBook { return &deliveryBook{t: t, statuses: map[int]int{}} }

// enter records an answer.
func (l *deliveryBook) enter(c *command, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.tries++; c.tries == 1 {
		l.commands = append(l.commands, c)
	}
	if a.err != nil {
		a.status = 0
	}
	l.statuses[a.status]++
	if !a.succeeded() {
		if a.err == nil && !a.unavailable() {
			l.surprise("%s %s is answered with %d, want 200, 201 or 503 unavailable\n%s", c.path, c.key, a.status, a.body)
		}
		return
	}
	var got identifiers
	if err := json.Unmarshal(a.body, &got); err != nil {
		l.surprise("%s %s: %v\n%s", c.path, c.key, err, a.body)
		return
	}
	if a.status == http.StatusCreated {
		if c.created {
			l.surprise("%s %s is created twice", c.path, c.key)
		}
		c.created = true
	}
	if c.answered == nil {
		c.answered = &got
		l.acknowledged++
		return
	}
	if !c.answered.equal(&got) {
		l.surprise("%s %s is answered with %+v, and before with %+v", c.path, c.key, got, *c.answered)
	}
}

// surprise fails the test, loudly a few times only.
func (l *deliveryBook) surprise(format string, args ...any) {
	if l.surprises++; l.surprises <= 10 {
		l.t.Errorf(format, args...)
	}
}

// await waits until n more commands are acknowledged.
func (l *deliveryBook) await(n int) {
	l.t.Helper()
	_, before := l.count()
	testdb.Eventually(l.t, "commands are acknowledged", func() bool {
		_, acknowledged := l.count()
		return acknowledged >= before+n
	})
}

func (l *deliveryBook) count() (sent, acknowledged int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.commands), l.acknowledged
}
