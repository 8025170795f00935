package blackbox_test

import (
	"strings"
	"testing"
	"time"

	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

// TestTrickledBodyIsNotTimedOut: the time-out is the service's own, for its own work; how long a partner takes to send
// does not use it up.
func TestTrickledBodyIsNotTimedOut(t *testing.T) {
	t.Parallel()
	p := blackbox.Start(t, testdb.New(t), "--request-timeout", "3s").NewPartner(t)
	for path, body := range map[string]blackbox.Fields{
		blackbox.NovelsPath: everything(blackbox.Unique("Trickled")).With(blackbox.Fields{
			"synopsis": strings.Repeat("滴", 5000),
		}),
		blackbox.PostsPath: blackbox.Comment(blackbox.Unique("Trickled")).With(blackbox.Fields{
			"content": strings.Repeat("滴", 5000),
		}),
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			request := p.Request(path, blackbox.Key(), body.JSON(t))
			request.Chunked, request.Pause = path == blackbox.PostsPath, 3500*time.Millisecond
			begun := time.Now()
			if response := p.Service.Send(t, request); response.Status != 201 {
				t.Errorf("status %d, want 201\n%s", response.Status, response.Body)
			}
			if took := time.Since(begun); took < request.Pause {
				t.Errorf("answered after %v, before the body was there", took)
			}
		})
	}
}
