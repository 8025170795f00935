package ratelimit

import "github.com/google/uuid"

// Waiting returns how many requests on a window wait for the next call.
func (l *Limiter) Waiting(integration uuid.UUID, operation Operation) int {
	l.mu.RLock()
	w := l.windows[key{integration: integration, operation: operation}]
	l.mu.RUnlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// Requests returns how many requests of an integration run or wait.
func (s *Shares) Requests(integration uuid.UUID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.shares[integration]; own != nil {
		return own.requests
	}
	return 0
}

// Remembered returns the number of integrations with requests.
func (s *Shares) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shares)
}
