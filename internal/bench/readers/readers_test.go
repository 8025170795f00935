package readers_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/bench/readers"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/readapi/queries"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// TestThePeerPrintsThePage: the comments that the peer prints are those of the page that it is compared with.
func TestThePeerPrintsThePage(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pools, err := database.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pools.Close)
	if _, err := pools.General.Exec(t.Context(), `INSERT INTO integrations (integration_id, name, enabled, can_create_novels, can_post, posts_per_minute,
		novels_per_minute, review, stream_version, registered_at) VALUES (gen_random_uuid(), 'Fan Site', true, true, true, 1, 1, false, 1, now())`); err != nil {
		t.Fatal(err)
	}
	if err := readers.Fill(t.Context(), url, 1000); err != nil {
		t.Fatal(err)
	}
	page, err := (&queries.Reader{DB: pools.Read}).Discussion(t.Context(),
		queries.DiscussionParams{Slug: readers.Slug, Newest: true, Limit: readers.Tops})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, thread := range page.Threads {
		want = append(want, thread.ID.String())
		for _, reply := range thread.Replies {
			want = append(want, reply.ID.String())
		}
	}
	server := httptest.NewServer(readers.Peer(pools.Read, readers.Slug))
	defer server.Close()
	answer := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	var got []string
	for line := range strings.Lines(answer.Body.String()) {
		got = append(got, strings.Fields(line)[0])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != readers.Posts {
		t.Errorf("%d comments (-page +peer):\n%s", len(got), diff)
	}

	load := &readers.Load{Host: strings.TrimPrefix(server.URL, "http://"), Path: "/", Connections: 2, Now: time.Now}
	result, err := load.Run(t.Context(), 500*time.Millisecond)
	if err != nil || result.PerSecond == 0 || result.Bytes != answer.Body.Len() {
		t.Errorf("%+v, %v", result, err)
	}
}
