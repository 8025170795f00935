package system_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"novelgate/internal/system"
)

// TestLock: of two exclusive locks, the second one fails at once, until the first one is released.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	lock := func() (*os.File, error) {
		return system.Lock(path, os.O_RDWR|os.O_CREATE, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	first, err := lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(); !errors.Is(err, system.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
