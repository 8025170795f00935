package load_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"novelgate/commands/request"
	"novelgate/internal/bench/load"
	"novelgate/internal/title"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestComposeIsARequestThatTheServiceTakes(t *testing.T) {
	t.Parallel()
	for _, parent := range []uint64{0, 99} {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(load.Compose(5, parent, now))))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		post, err := request.DecodePost(body, now)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if post.Title != load.Title(7) || (post.ParentKey != nil) != (parent != 0) || len(post.Content) < 250 ||
			len(post.Content) > 350 {
			t.Errorf("composed %+v", post)
		}
		key, err := request.IdempotencyKey(r.Header)
		if err != nil || key != load.Key(5, 2, 3) {
			t.Errorf("the key is %q, %v; want %q", key, err, load.Key(5, 2, 3))
		}
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization: %q", got)
		}
	}
}

func TestKeysAndTitlesAreUnique(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for run := range 3 {
		for connection := range 40 {
			for ordinal := range 40 {
				keys[load.Key(uint16(run), connection, ordinal)] = true
			}
		}
	}
	if len(keys) != 3*40*40 {
		t.Errorf("%d different keys, want %d", len(keys), 3*40*40)
	}
	titles, slugs := map[string]bool{}, map[string]bool{}
	for i := range 5000 {
		titles[title.Fold(load.Title(i))] = true
		slugs[title.Slug(load.Title(i))] = true
	}
	if len(titles) != 5000 || len(slugs) != 5000 {
		t.Errorf("%d different titles and %d different slugs, want 5000", len(titles), len(slugs))
	}
}
