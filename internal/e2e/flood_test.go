package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"novelgate/internal/apikey"
	"novelgate/internal/testdb"
)

// connections of a flood. Many more are as harmless, and leave little of the processors to the tests beside this one.
const connections = 200

// TestFlood floods the service beside a partner who imports comments and must not notice.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	flooder, other := s.NewPartner(t), s.NewPartner(t)
	t.Run("of queries", func(t *testing.T) {
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = fmt.Sprint("key-", i)
		}
		body := Fields{"operation": "posts", "idempotencyKeys": keys}.JSON(t)
		answers := flood(t, func() *http.Request {
			return floodRequest(t, s.URL+"/api/integrations/deliveries/reconcile", flooder.APIKey, body)
		}, func() { importAll(t, other) })
		if answers[http.StatusOK] == 0 || answers[http.StatusTooManyRequests] == 0 {
			t.Errorf("answers to the flooder: %v, want some 200 and some 429", answers)
		}
	})
	t.Run("of guessed keys", func(t *testing.T) {
		answers := flood(t, func() *http.Request {
			guess, err := apikey.New(apikey.Partner)
			if err != nil {
				t.Error(err)
			}
			return floodRequest(t, s.URL+PostsPath, guess.Reveal(), nil)
		}, func() { importAll(t, other) })
		if answers[http.StatusUnauthorized] == 0 {
			t.Errorf("answers to guesses: %v, want 401", answers)
		}
	})
}

// importAll imports some comments, one after another, and reports how long one takes.
func importAll(t *testing.T, p *Partner) {
	t.Helper()
	title := Unique("Beside a flood")
	took := make([]time.Duration, 30)
	for i := range took {
		start := time.Now()
		p.Import(t, Key(), Comment(title)).WantPost(t, http.StatusCreated)
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	t.Logf("a comment takes %v (median)", took[len(took)/2])
}

func floodRequest(t *testing.T, url, key string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return nil
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// flood sends requests over many connections, each as soon as it has the answer to the one before, from when all of
// them have an answer until meanwhile returns. It counts the answers by status.
func flood(t *testing.T, next func() *http.Request, meanwhile func()) map[int]int {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var mu sync.Mutex
	answers := map[int]int{}
	over := make(chan struct{})
	var all, begun sync.WaitGroup
	begun.Add(connections)
	for range connections {
		all.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for {
				select {
				case <-over:
					return
				default:
				}
				answer, err := client.Do(next())
				if err != nil {
					continue // a connection may be closed before all of a refused body was sent
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				mu.Lock()
				answers[answer.StatusCode]++
				mu.Unlock()
				first()
			}
		})
	}
	begun.Wait()
	meanwhile()
	close(over)
	all.Wait()
	return answers
}
