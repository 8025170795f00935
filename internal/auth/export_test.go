package auth

// Remembered returns the number of cached keys.
func (k *Keys) Remembered() int { return k.cache.Len() }
