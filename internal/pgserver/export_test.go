package pgserver

// InstallCommandFor is exported for its test.
var InstallCommandFor = installCommandFor

// DisarmPIDFile is exported for its test: the file of a server with this process number, which has these lines.
func DisarmPIDFile(cluster string, pid int, lines ...string) error {
	return disarmPIDFile(cluster, pidFile{pid: pid, lines: lines})
}
