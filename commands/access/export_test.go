package access

// Remembered returns the number of cached keys.
func (k *Keys) Remembered() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.entries)
}

// Waiting returns the number of keys of integrations that wait for a query.
func (k *Keys) Waiting() int {
	k.integrations.mu.Lock()
	defer k.integrations.mu.Unlock()
	return len(k.integrations.waiting)
}
