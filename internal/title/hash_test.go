package title_test

import (
	"testing"

	"golang.org/x/text/cases"

	"novelgate/internal/title"
)

// TestTableHash pins the hash for each version of the Unicode tables. A failure
// means that stored look-up keys may no longer match: every database refolds its
// titles once when the new version starts. If that is intended, pin the new hash.
func TestTableHash(t *testing.T) {
	t.Parallel()
	pinned := map[string]string{
		"15.0.0": "39529dd17458d968cd48a66fddeeb821d44529e36b2ca0a3c8c1c8457b13ddf5",
	}
	if got, want := title.TableHash(), pinned[cases.UnicodeVersion]; got != want {
		t.Errorf("with Unicode %s TableHash() = %q, pinned %q", cases.UnicodeVersion, got, want)
	}
}
