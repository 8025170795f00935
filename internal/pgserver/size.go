package pgserver

import "strconv"

const (
	mebibyte = 1 << 20

	leastBuffers = 128 * mebibyte  // what the server takes by itself
	mostBuffers  = 1024 * mebibyte // memory that a server beside other programs may well use
	memoryShare  = 8
)

// sizes returns the settings that depend on the machine, and those that the server's own defaults set for one of the
// last century.
//
// Identifiers are spread evenly over the indexes, so that most appends touch pages that no other has touched for a
// while. Pages that do not fit in shared_buffers are written and read again and again; each page that is touched for
// the first time after a checkpoint goes to the WAL as a whole.
func sizes(memory uint64) map[string]string {
	buffers := min(max(memory/memoryShare, leastBuffers), mostBuffers)
	return map[string]string{
		"shared_buffers":     strconv.FormatUint(buffers/mebibyte, 10) + "MB",
		"max_wal_size":       "4GB",
		"checkpoint_timeout": "15min",
	}
}
