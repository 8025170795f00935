package access

// Remembered returns how many keys are in memory.
func (k *Keys) Remembered() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.entries)
}
