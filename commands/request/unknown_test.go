package request_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/request"
)

func TestNearestMember(t *testing.T) {
	t.Parallel()
	for unknown, want := range map[string]string{
		"parentUuid": "parent_uuid", "parent": "parent_uuid", "parentId": "parent_uuid", "chapter": "chapterNumber",
		"chapter_number": "chapterNumber", "user": "username", "userName2": "username", "timestmp": "timestamp",
		"contents": "content", "novelTitle": "novel", "reply_to": "", "id": "", "x": "", "": "", "日本": "", "_": "",
	} {
		if got := request.NearestPostMember(unknown); got != want {
			t.Errorf("%q resembles %q, want %q", unknown, got, want)
		}
	}
	for unknown, want := range map[string]string{"cover": "coverUrl", "reading_status": "readingStatus", "parent": ""} {
		if got := request.NearestNovelMember(unknown); got != want {
			t.Errorf("%q of a novel resembles %q, want %q", unknown, got, want)
		}
	}
}

// TestUnknownMembers are ignored and named.
func TestUnknownMembers(t *testing.T) {
	t.Parallel()
	p, err := request.DecodePost([]byte(
		`{"uuid":"u","x":{"y":1},"username":"n","novel":"N","content":"c","parentUuid":"k"}`), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"x", "parentUuid"}, p.Unknown); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	n, err := request.DecodeNovel([]byte(`{"novel":"N","cover":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cover"}, n.Unknown); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
