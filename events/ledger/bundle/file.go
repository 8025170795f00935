package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Personal data is in a bundle: it is for its owner's eyes.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// partial ends the name of a file that is not whole yet.
const partial = ".part"

// writeFile puts a file in its place once it is whole, and on the disk.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.WriteFile(path+partial, data, fileMode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := syncFile(path + partial); err != nil {
		return err
	}
	return rename(path)
}

// rename takes the ending off a file's name.
func rename(path string) error {
	if err := os.Rename(path+partial, path); err != nil {
		return fmt.Errorf("put file in its place: %w", err)
	}
	return nil
}

// syncFile waits until a file, or the names in a directory, are on the disk.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open to synchronize: %w", err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("synchronize %s: %w", path, err)
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for file: %w", err)
	}
	return true, nil
}

// dirs are the directories in which an export has put something.
type dirs struct {
	mu   sync.Mutex
	made map[string]bool
}

func newDirs() *dirs { return &dirs{made: map[string]bool{}} }

// make makes a directory, the first time.
func (d *dirs) make(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[path] {
		return nil
	}
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	d.made[path] = true
	return nil
}

// sync waits until the names in all of them, and in those between them and root, are on the disk.
func (d *dirs) sync(root string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]bool{root: true}
	for path := range d.made {
		for ; !all[path] && strings.HasPrefix(path, root); path = filepath.Dir(path) {
			all[path] = true
		}
	}
	for path := range all {
		if err := syncFile(path); err != nil {
			return err
		}
	}
	return nil
}

const (
	// settleFiles is how many files are put on the disk together, those of some 128,000 events. This is what a crash may
	// cost.
	settleFiles = 1024
	// settlers is how many wait for the disk at a time: it orders what they want, and writes the journal of the file
	// system for all at once. One after another takes several times as long.
	settlers = 8
)

// written are the files of a chunk that nobody vouches for yet.
type written struct {
	events string   // has its name once it and all others are on the disk
	files  []string // all of them, as they are called now
}

// settle puts chunks on the disk, and then the files of events in their places: a file of events in its place vouches
// for its chunk, so that an export which goes on after a crash does not look at it again.
func settle(chunks []written) error {
	var files []string
	for _, chunk := range chunks {
		files = append(files, chunk.files...)
	}
	var group errgroup.Group
	var next atomic.Int64
	for range settlers {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				if err := syncFile(files[i]); err != nil {
					next.Store(int64(len(files))) // the others end, too
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err //nolint:wrapcheck // those of this package
	}
	for _, chunk := range chunks {
		if err := rename(chunk.events); err != nil {
			return err
		}
	}
	return nil
}

// settleAll settles chunks as they come, many together, until there are no more. It calls failing at once when that
// fails, for those who write what could not be put on the disk any more.
func (x *Export) settleAll(chunks <-chan written, failing func()) error {
	enough := cmp.Or(x.settleFiles, settleFiles)
	var failed error
	var some []written
	files := 0
	for chunk := range chunks {
		if failed != nil {
			continue // whoever writes must not wait
		}
		some = append(some, chunk)
		if files += len(chunk.files); files >= enough {
			if failed = settle(some); failed != nil {
				failing()
			}
			some, files = nil, 0
		}
	}
	if failed != nil {
		return failed
	}
	return settle(some)
}
