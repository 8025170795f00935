package bundle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

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
