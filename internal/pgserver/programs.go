package pgserver

import (
	"context"
	"errors"
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
	bin, ok, reasons := firstUsable(ctx, dirs, 0, "pg_basebackup", "pg_rewind", "psql")
	if !ok {
		return "", nil, errors.Join(ErrNoBinaries, reasons)
	}
	owner, err := chooseAccount("")
	return bin.dir, owner.credential(), err
}
