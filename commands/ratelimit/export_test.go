package ratelimit

import "github.com/google/uuid"

// CleanSQL is the statement of Run.
const CleanSQL = cleanSQL

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
