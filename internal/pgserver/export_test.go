package pgserver

import "time"

// InstallCommandFor is exported for its test.
var InstallCommandFor = installCommandFor

// DisarmPIDFile is exported for its test: the file of a server with this process number, which has these lines.
func DisarmPIDFile(cluster string, pid int, lines ...string) error {
	return disarmPIDFile(cluster, pidFile{pid: pid, lines: lines})
}

// WithLogInterval is cfg with another time between two looks at the size of the server's log.
func WithLogInterval(cfg Config, interval time.Duration) Config {
	cfg.logInterval = interval
	return cfg
}
