package e2e_test

import (
	"net/http"
	"testing"
)

// TestFailedRequestLeavesItsKeyFree lets one key fail for every reason that a body or a header can give, then uses it.
// The reasons that need staff (403, 404, 409, 429) are where the rule behind each is tested.
func TestFailedRequestLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Free")
	for path, valid := range map[string]Fields{
		NovelsPath: everything(title), PostsPath: Comment(title),
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			attempts := map[string]func(*Request){
				"401":        func(r *Request) { r.Bearer = "" },
				"413":        func(r *Request) { r.Body = make([]byte, 40_000) },
				"415":        func(r *Request) { r.ContentType = "text/plain" },
				"400, JSON":  func(r *Request) { r.Body = r.Body[:len(r.Body)-1] },
				"400, field": func(r *Request) { r.Body = valid.With(Fields{"novel": ""}).JSON(t) },
				"404":        func(r *Request) { r.Path += "/x" },
				"405":        func(r *Request) { r.Method = http.MethodPut },
			}
			for name, spoil := range attempts {
				request := p.Request(path, "k", valid.JSON(t))
				spoil(&request)
				if response := p.Service.Send(t, request); response.Status < 400 {
					t.Fatalf("%s: status %d", name, response.Status)
				}
			}
			response := p.Service.Send(t, p.Request(path, "k", valid.JSON(t)))
			response.WantReplayed(t, false, false)
			if response.Status >= 400 {
				t.Errorf("status %d, want success\n%s", response.Status, response.Body)
			}
		})
	}
}
