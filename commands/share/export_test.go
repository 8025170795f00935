package share

import "github.com/google/uuid"

// Requests returns how many requests of an integration are under way or wait.
func (s *Shares) Requests(integration uuid.UUID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.shares[integration]; own != nil {
		return own.requests
	}
	return 0
}

// Remembered returns how many integrations have requests.
func (s *Shares) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shares)
}
