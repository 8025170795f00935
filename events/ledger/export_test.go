package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"
)

// EventsSQL is the statement of Store.Events.
const EventsSQL = eventsSQL

// Piece is a run of hashes that is stored together.
type Piece struct {
	Level  int
	First  int64
	Hashes []byte
}

// Tree grows a tree without a database.
type Tree struct{ tree *tree }

// NewTree returns an empty tree.
func NewTree() *Tree { return &Tree{tree: &tree{Edge: NewEdge()}} }

// Grow adds leaves as one seal does.
func (t *Tree) Grow(leaves []tlog.Hash) ([]Piece, error) {
	for _, leaf := range leaves {
		if err := t.tree.add(leaf); err != nil {
			return nil, err
		}
	}
	var pieces []Piece
	for _, p := range t.tree.take() {
		pieces = append(pieces, Piece{p.level, p.first, p.hashes})
	}
	return pieces, nil
}

// Root returns the root.
func (t *Tree) Root() tlog.Hash { return t.tree.Root() }

// Reload builds the tree from its tiles again.
func (t *Tree) Reload(read func(tlog.Tile) []byte) error {
	size := t.tree.Size()
	tiles := edgeTiles(size)
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		data[i] = read(tile)
	}
	reloaded, err := newTree(t.tree.Tree(), tiles, data)
	t.tree = reloaded
	return err
}

// Keys returns the public keys of a signer.
func (s *Signer) Keys() []string { return s.config.Identity.VerifierKeys }

// LoggedFailures returns the indexes of the outcomes that a signer logs.
func LoggedFailures(outcomes []error) (logged []int) {
	var f failures
	for i, err := range outcomes {
		if f.due(err) {
			logged = append(logged, i)
		}
	}
	return logged
}

// CreateFile writes a file unless it exists.
func CreateFile(file string, data []byte) error { return createFile(file, data) }

// LinkOrRename gives a file a new name.
var LinkOrRename = linkOrRename

// SetPoll changes the longest time between two reads of the log.
func (s *Sealer) SetPoll(poll time.Duration) { s.follow.Poll = poll }

// Facts are the inputs of a signer's decision.
type Facts struct {
	Directory   uuid.UUID
	Signer      uuid.NullUUID
	Noted, Last *tlog.Tree
	Tree        tlog.Tree
	Unsealed    bool
}

// Decide reports whether to sign.
func (f Facts) Decide(extends func(older tlog.Tree) error) (sign bool, err error) {
	all := facts{
		directory: f.Directory, signer: f.Signer, noted: f.Noted, last: f.Last, tree: f.Tree, unsealed: f.Unsealed,
	}
	return all.decide(extends)
}

// SignAndDie does the first steps of Sign, like a process that is killed before the directory or the database has the
// checkpoint. It fails if there is nothing to sign.
func (s *Signer) SignAndDie(ctx context.Context, noted bool) error {
	return s.signUntil(ctx, noted, func(*pgxpool.Conn, *signedCheckpoint) error { return nil })
}

// SignBeside is Sign that calls meanwhile before the database has the checkpoint.
func (s *Signer) SignBeside(ctx context.Context, meanwhile func()) error {
	return s.signUntil(ctx, true, func(conn *pgxpool.Conn, next *signedCheckpoint) error {
		meanwhile()
		return s.insert(ctx, conn, next)
	})
}

func (s *Signer) signUntil(
	ctx context.Context, noted bool, end func(*pgxpool.Conn, *signedCheckpoint) error,
) error {
	directory, unlock, err := s.config.Identity.Directory.lock()
	if err != nil {
		return err
	}
	defer unlock() // as after the end of the process
	conn, err := s.config.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	next, err := s.signNext(ctx, conn, directory)
	if err == nil && next == nil {
		err = errors.New("there is nothing to sign")
	}
	if err == nil && noted {
		err = s.storeInDirectory(next)
	}
	if err != nil {
		return err
	}
	return end(conn, next)
}

// Lock locks the directory until unlock.
func (d Directory) Lock() (unlock func(), err error) {
	_, unlock, err = d.lock()
	return unlock, err
}
