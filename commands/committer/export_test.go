package committer

// NeverDoubt makes every batch be presumed new at first, whatever the last ones held.
func NeverDoubt(c *Config) { c.neverDoubt = true }
