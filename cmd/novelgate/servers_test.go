package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestListenNamesTheFlag: an address that is in use can be found in the command line, before a database is created.
func TestListenNamesTheFlag(t *testing.T) {
	t.Parallel()
	listener, err := listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	want := "--ops-listen: listen tcp " + listener.Addr().String() + ": "
	if _, err := listen(t.Context(), "--ops-listen", listener.Addr().String()); err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("error = %v, want %s…", err, want)
	}
	dir := filepath.Join(t.TempDir(), "data")
	_, stderr, code := runHere("serve", "--data-dir", dir, "--listen", "127.0.0.1:0",
		"--ops-listen", listener.Addr().String())
	if _, err := os.Stat(dir); code != 1 || !strings.Contains(stderr, want) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exit code %d, data directory: %v\n%s", code, err, stderr)
	}
}

// TestPartsStopInReverse: each part lives until all after it have ended, whether the service is stopped or a part
// fails, and the error names that part.
func TestPartsStopInReverse(t *testing.T) {
	t.Parallel()
	broken := errors.New("it broke")
	for name, test := range map[string]struct {
		fails string // name of the part that fails by itself; "": the service is stopped
		stops string // name of the part that fails while it stops
		want  string
	}{
		"stopped":                {},
		"a part fails":           {fails: "middle", want: "middle: it broke"},
		"a part stops badly":     {stops: "first", want: "first: it broke"},
		"the first error counts": {fails: "last", stops: "first", want: "last: it broke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var mu sync.Mutex
			var ended []string
			var started sync.WaitGroup
			parts := []part{{name: "first"}, {name: "middle"}, {name: "last"}}
			started.Add(len(parts))
			for i := range parts {
				name := parts[i].name
				parts[i].run = func(ctx context.Context) error {
					started.Done()
					started.Wait()
					if name == test.fails {
						return broken
					}
					<-ctx.Done()
					mu.Lock()
					defer mu.Unlock()
					ended = append(ended, name)
					if name == test.stops {
						return broken
					}
					return ctx.Err()
				}
			}
			if test.fails == "" {
				go func() { started.Wait(); cancel() }()
			}
			got := ""
			if err := runParts(ctx, parts); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			order := slices.DeleteFunc([]string{"last", "middle", "first"}, func(name string) bool { return name == test.fails })
			if diff := cmp.Diff(order, ended); diff != "" {
				t.Errorf("(-want +got)\n%s", strings.TrimSpace(diff))
			}
		})
	}
}
