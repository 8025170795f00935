package ledger

import "golang.org/x/mod/sumdb/tlog"

// Piece is a run of hashes that was stored at once.
type Piece struct {
	Level  int
	First  int64
	Hashes []byte
}

// Tree lets tests grow a tree without a database.
type Tree struct{ tree *tree }

// NewTree is an empty tree.
func NewTree() *Tree { return &Tree{tree: &tree{}} }

// Grow adds leaves as one seal does.
func (t *Tree) Grow(leaves []tlog.Hash) ([]Piece, error) {
	g := t.tree.grow()
	for _, leaf := range leaves {
		if err := g.add(leaf); err != nil {
			return nil, err
		}
	}
	var pieces []Piece
	for _, p := range g.finish() {
		pieces = append(pieces, Piece{p.level, p.first, p.hashes})
	}
	return pieces, nil
}

// Root is the root.
func (t *Tree) Root() (tlog.Hash, error) { return t.tree.root() }

// Reload forgets the tree and puts it together from tiles again.
func (t *Tree) Reload(read func(tlog.Tile) []byte) error {
	root, err := t.tree.root()
	if err != nil {
		return err
	}
	tiles := edgeTiles(t.tree.size)
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		data[i] = read(tile)
	}
	t.tree, err = newTree(t.tree.size, root, tiles, data)
	return err
}

// Keys are the public keys that a signer signs with.
func (s *Signer) Keys() []string { return s.config.Identity.VerifierKeys }

// ErrMemory is the error of a memory that cannot be written.
var ErrMemory = errMemory

// LoggedFailures says which of the outcomes in a row a signer logs.
func LoggedFailures(outcomes []error) (logged []int) {
	var f failures
	for i, err := range outcomes {
		if f.due(err) {
			logged = append(logged, i)
		}
	}
	return logged
}

// CreateFile writes a file that is not there yet.
func CreateFile(file string, data []byte) error { return createFile(file, data, keyFileMode) }

// LinkOrRename gives a file a new name.
var LinkOrRename = linkOrRename
