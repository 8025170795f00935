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

// A bundle has personal data, so only its owner can read it.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// partial is the suffix of an incomplete file.
const partial = ".part"

// writeFile writes a file under a temporary name, syncs it and renames it.
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

// rename removes the suffix of a file.
func rename(path string) error {
	if err := os.Rename(path+partial, path); err != nil {
		return fmt.Errorf("put file in its place: %w", err)
	}
	return nil
}

// syncFile syncs a file or a directory to disk.
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

// dirs are the directories that an export has changed.
type dirs struct {
	mu   sync.Mutex
	made map[string]bool
}

func newDirs() *dirs { return &dirs{made: map[string]bool{}} }

// make creates a directory on the first call.
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

// sync syncs all these directories and their parents up to root.
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
	// syncFiles is the number of files that are synced together, those of some 128,000 events. A crash loses at most
	// these.
	syncFiles = 1024
	// syncers is the number of concurrent syncs: the disk orders them, and the file system writes its journal once for
	// all. Sequential syncs take several times as long.
	syncers = 8
)

// written are the files of a chunk that are not synced yet.
type written struct {
	events string   // renamed after it and all others are synced
	files  []string // all of them, by their current names
}

// syncChunks syncs chunks and then renames their files of events. A renamed file of events marks its chunk as complete,
// so an export that continues after a crash skips it.
func syncChunks(chunks []written) error {
	var files []string
	for _, chunk := range chunks {
		files = append(files, chunk.files...)
	}
	var group errgroup.Group
	var next atomic.Int64
	for range syncers {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				if err := syncFile(files[i]); err != nil {
					next.Store(int64(len(files))) // ends the other goroutines
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, chunk := range chunks {
		if err := rename(chunk.events); err != nil {
			return err
		}
	}
	return nil
}

// syncAll syncs chunks as they arrive, many together, until the channel is closed. It calls failing on the first
// error, to stop the writers.
func (x *Export) syncAll(chunks <-chan written, failing func()) error {
	enough := cmp.Or(x.syncFiles, syncFiles)
	var failed error
	var some []written
	files := 0
	for chunk := range chunks {
		if failed != nil {
			continue // drain the channel, so that writers do not block
		}
		some = append(some, chunk)
		if files += len(chunk.files); files >= enough {
			if failed = syncChunks(some); failed != nil {
				failing()
			}
			some, files = nil, 0
		}
	}
	if failed != nil {
		return failed
	}
	return syncChunks(some)
}
