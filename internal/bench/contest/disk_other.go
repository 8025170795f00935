//go:build !linux

package contest

// onDisk believes the directory to be on a disk.
func onDisk(string) error { return nil }
