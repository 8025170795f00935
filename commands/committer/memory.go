package committer

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// How much a lane remembers, each up to twice. It comes to some megabytes, with the longest titles to some tens.
const (
	rememberedTitles   = 4096
	rememberedComments = 32768
	rememberedBlocked  = 4096
)

// newsLimit is how many changed titles a lane hears of one by one. A transaction that stays open makes all that has
// changed since be looked at for each batch.
const newsLimit = 32

// memory is what a lane need not read for every comment again: titles with a thread, and in which threads the latest
// comments are. A comment stays where it is. What becomes of a title is an event, so with each batch the lane asks of
// which titles there have been any, and does not trust its memory of those. See docs/decisions/0011.
type memory struct {
	connections int64  // that had been made by then, see meet
	settled     uint64 // the lane has heard of all transactions before this one
	epoch       epoch
	titles      recent[string, *title]
	threads     recent[uuid.UUID, uuid.UUID] // by comment
	blocked     recent[uuid.UUID, struct{}]  // authors who were; whether they still are has to be read
}

// epoch is another one when titles may have changed without an event.
type epoch struct {
	table     uint32      // OID of title_lookup: a rebuild exchanges it
	foldTable pgtype.Text // hash of what the titles were folded with
}

// news is what a lane hears with each batch: ahead of all else that is read or, when nothing is, behind the append.
type news struct {
	settled uint64
	epoch   epoch
	titles  []string // that have changed, or may have; newsLimit of them when there may be more
}

func newMemory() *memory {
	return &memory{
		titles: newRecent[string, *title](rememberedTitles), threads: newRecent[uuid.UUID, uuid.UUID](rememberedComments),
		blocked: newRecent[uuid.UUID, struct{}](rememberedBlocked),
	}
}

// met marks a connection that a lane has used.
const met = "novelgate committer"

// meet counts connections. A server that has crashed, was restored, or is another one has ended all that there were, so
// a lane whose memory is as old as the latest connection has heard of the very transactions that there are: after a
// crash, the ids of those that left nothing on disk are given to others.
func (c *Committer) meet(conn *pgconn.PgConn) (connections int64) {
	if _, ok := conn.CustomData()[met]; !ok {
		conn.CustomData()[met] = true
		return c.connections.Add(1)
	}
	return c.connections.Load()
}

// begin forgets everything if there are new connections.
func (m *memory) begin(connections int64) {
	if m.connections != connections {
		m.forget()
		m.connections, m.settled = connections, 0
	}
}

// forget forgets what was true.
func (m *memory) forget() {
	m.titles.clear()
	m.threads.clear()
}

// hear forgets what may have changed.
func (m *memory) hear(n *news) {
	if n.epoch != m.epoch {
		m.forget()
	}
	if len(n.titles) >= newsLimit {
		m.titles.clear()
	}
	m.drop(n.titles)
	m.settled, m.epoch = n.settled, n.epoch
}

// drop forgets titles.
func (m *memory) drop(folded []string) {
	for _, f := range folded {
		m.titles.drop(f)
	}
}
