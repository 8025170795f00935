package ratelimit

import "github.com/google/uuid"

// Windows tells how many windows are in memory.
func (l *Limiter) Windows() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.windows)
}

// Waiting returns how many requests on a window wait for the next call.
func (l *Limiter) Waiting(integration uuid.UUID, operation Operation) int {
	l.mu.RLock()
	w := l.windows[key{integration: integration, operation: operation}]
	l.mu.RUnlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}
