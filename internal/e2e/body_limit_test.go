package e2e_test

import (
	"bytes"
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

func TestMuchTooLargeBody(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	request := p.Request(PostsPath, Key(), bytes.Repeat([]byte("x"), 8<<20))
	// The service may hang up before it has read all of it; what counts is that it answers or hangs up, and stays.
	if response, err := p.Service.TrySend(t, request); err == nil {
		response.WantProblem(t, 413, "payload_too_large")
	}
	p.Import(t, Key(), Comment(Unique("Still there"))).WantPost(t, 201)
}
