package pgserver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
)

// Programs returns the directory of an installed PostgreSQL with the tools of a cluster, which the packages on npm
// lack, and the user to run its programs as: nil for the user of this process, otherwise this process is root.
func Programs(ctx context.Context) (dir string, as *syscall.Credential, err error) {
	cfg, err := Config{}.withDefaults()
	if err != nil {
		return "", nil, err
	}
	dirs := candidates(ctx, cfg)
	if explicit := cfg.getenv("PG_BINDIR"); explicit != "" {
		dirs = []string{explicit}
	}
	var unusable []error
	for _, dir := range dirs {
		_, err := inspect(ctx, dir, 0)
		for _, tool := range []string{"pg_basebackup", "pg_rewind", "psql"} {
			if err == nil && !isExecutable(filepath.Join(dir, tool)) {
				err = fmt.Errorf("%s has no %s", dir, tool)
			}
		}
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		owner, err := chooseAccount("")
		return dir, owner.credential(), err
	}
	return "", nil, fmt.Errorf("%w: %w", ErrNoBinaries, errors.Join(unusable...))
}
