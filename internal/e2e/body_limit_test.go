package e2e_test

import (
	"bytes"
	"strings"
	"testing"
)

const maxBody = 32_768

// padded returns the body made exactly so many bytes long by white space, at its end or at its beginning.
func padded(t *testing.T, body []byte, length int, before bool) []byte {
	t.Helper()
	space := bytes.Repeat([]byte(" "), length-len(body))
	if before {
		return append(space, body...)
	}
	return append(body, space...)
}

func TestBodyOfExactlyTheLimitPasses(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		for _, before := range []bool{false, true} {
			for _, chunked := range []bool{false, true} {
				body := Comment(Unique("Exactly")).JSON(t)
				request := p.Request(path, Key(), padded(t, body, maxBody, before))
				request.Chunked = chunked
				if response := p.Service.Send(t, request); response.Status != 201 {
					t.Errorf("%s: status %d, want 201\n%s", path, response.Status, response.Body)
				}
				body = Comment(Unique("One more")).JSON(t)
				request = p.Request(path, Key(), padded(t, body, maxBody+1, before))
				request.Chunked = chunked
				p.Service.Send(t, request).WantProblem(t, 413, "payload_too_large")
			}
		}
	}
}

func TestMuchTooLargeBodies(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, size := range map[string]int{"a megabyte": 1 << 20, "eight megabytes": 8 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := p.Request(PostsPath, Key(), bytes.Repeat([]byte("x"), size))
			// The service may hang up before it has read all of it; what counts is that it answers or hangs up, and stays.
			if response, err := p.Service.TrySend(t, request); err == nil {
				response.WantProblem(t, 413, "payload_too_large")
			}
			p.Import(t, Key(), Comment(Unique("Still there"))).WantPost(t, 201)
		})
	}
}

func TestTwentyThousandCJKCharactersDoNotFit(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("長い")
	p.Import(t, Key(), Comment(title).With(Fields{"content": strings.Repeat("語", 20_000)})).
		WantProblem(t, 413, "payload_too_large")
	p.Import(t, Key(), Comment(title).With(Fields{"content": strings.Repeat("語",
		10_800)})).WantPost(t, 201)
}

func TestTwentyThousandLettersFit(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	content := strings.Repeat("twenty thousand ", 1250)
	post := p.Import(t, Key(),
		Comment(Unique("Long")).With(Fields{"content": content})).WantPost(t, 201)
	var stored string
	p.Service.Projected(t, []any{&stored}, "SELECT content FROM analytics.posts WHERE post_id = $1", post.PostID)
	if stored != content {
		t.Errorf("%d characters are stored, want %d", len(stored), len(content))
	}
}
