//go:build !linux

package contest

// OnDisk believes the directory to be on a disk.
func OnDisk(string) error { return nil }
