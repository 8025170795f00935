package pgserver

import (
	"context"
	"log/slog"
)

// InstallCommandFor is exported for its test.
var InstallCommandFor = installCommandFor

// FindPrograms finds programs with another environment, other directories and another cache.
func FindPrograms(
	ctx context.Context, getenv func(string) string, globs []string, cache string, want int,
) (dir string, err error) {
	bin, err := finder{getenv, globs, cache, slog.New(slog.DiscardHandler)}.find(ctx, want)
	return bin.dir, err
}
