package bundle

import (
	"cmp"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

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
