package pgserver

import "time"

// InstallCommandFor is exported for its test.
var InstallCommandFor = installCommandFor

// DisarmPIDFile is exported for its test: the file of a server with this process number, which has these lines.
func DisarmPIDFile(cluster string, pid int, lines ...string) error {
	return disarmPIDFile(cluster, pidFile{pid: pid, lines: lines})
}

// WithLogInterval returns cfg with another interval between checks of the size of the server's log.
func (c Config) WithLogInterval(interval time.Duration) Config {
	c.logInterval = interval
	return c
}

// WithCacheDir returns cfg with another cache directory.
func (c Config) WithCacheDir(dir string) Config {
	c.cacheDir = dir
	return c
}

// WithGlobs returns cfg with other patterns for programs.
func (c Config) WithGlobs(globs ...string) Config {
	c.searchGlobs = append([]string{}, globs...)
	return c
}

// WithEnvironment returns cfg with another environment.
func (c Config) WithEnvironment(getenv func(string) string) Config {
	c.getenv = getenv
	return c
}
