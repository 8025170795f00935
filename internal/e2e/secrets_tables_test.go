package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

// mayHoldWords are the places that people's words may be in: `personal` of the log, which can be erased, and the read
// models of comments and their authors.
var mayHoldWords = []string{"public.events.personal.", "pg_dump of public.events.", "public.posts.", "public.authors."}

// wantTablesClean looks wherever the database may keep something: keys are nowhere, refused words neither, and accepted
// words only where they belong.
func wantTablesClean(t *testing.T, databaseURL string, s *spy) {
	t.Helper()
	if held := testdb.Holding(t, databaseURL, append(s.secrets(), refusedWords, headerWords)...); len(held) > 0 {
		t.Errorf("a key or refused words are in %v", held)
	}
	holding := testdb.Holding(t, databaseURL, acceptedWords)
	for _, name := range holding {
		if !slices.ContainsFunc(mayHoldWords, func(place string) bool { return strings.Contains(name+".", place) }) {
			t.Errorf("%s holds what a comment says", name)
		}
	}
	if !slices.Contains(holding, "public.events.personal") {
		t.Errorf("the search does not find the comments in public.events.personal, only in %v", holding)
	}
	// Of each key that was issued there is the SHA-256, and of no guess.
	var wanted []string
	for _, key := range s.keys {
		wanted = append(wanted, fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
	}
	slices.Sort(wanted)
	stored := value[[]string](t, databaseURL, `SELECT array_agg(hash ORDER BY hash COLLATE "C") FROM (SELECT encode(key_hash, 'hex') AS hash
		FROM (SELECT key_hash FROM api_keys UNION ALL SELECT key_hash FROM person_keys) AS keys) AS hashes`)
	if diff := cmp.Diff(wanted, stored); diff != "" {
		t.Errorf("stored hashes (-keys +tables)\n%s", diff)
	}
}
