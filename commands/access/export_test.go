package access

// Remembered returns how many keys are in memory.
func (k *Keys) Remembered() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.entries)
}

// FindAttempts is how often a look-up is tried that times out.
const FindAttempts = findAttempts

// Waiting returns how many keys of integrations wait for a query.
func (k *Keys) Waiting() int {
	k.integrations.mu.Lock()
	defer k.integrations.mu.Unlock()
	return len(k.integrations.waiting)
}
