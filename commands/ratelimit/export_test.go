package ratelimit

// Windows tells how many windows are in memory.
func (l *Limiter) Windows() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.windows)
}
