//go:build linux

package pgserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroupLimit is the memory limit of a container (cgroups(7), version 2).
const cgroupLimit = "/sys/fs/cgroup/memory.max"

// memory returns the bytes of memory of this machine or container; 0 if unknown.
func memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // the types depend on the architecture
	if text, err := os.ReadFile(cgroupLimit); err == nil {
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			total = min(total, limit)
		}
	}
	return total
}

// disk returns the size and the free bytes of the file system of a directory; 0 if unknown.
func disk(dir string) (size, free uint64) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0
	}
	block := uint64(fs.Bsize) //nolint:gosec // never negative
	return fs.Blocks * block, fs.Bavail * block
}

// Constants of a POSIX access control list in the kernel's format: a version, then entries sorted by tag and id
// (include/uapi/linux/posix_acl_xattr.h).
const (
	aclAttribute = "system.posix_acl_access"
	aclVersion   = 2
	aclMaxSize   = 4096

	aclUserOwner  = 0x01
	aclUser       = 0x02
	aclGroupOwner = 0x04
	aclMask       = 0x10
	aclOther      = 0x20

	aclNoID    = 0xffffffff
	aclExecute = 1
)

type aclEntry struct {
	Tag, Perm uint16
	ID        uint32
}

// grantPassage lets one user enter a directory, without any other right: `setfacl -m u:UID:x DIR`.
func grantPassage(dir string, uid int) error {
	entries, err := readACL(dir)
	if err != nil {
		return err
	}
	granted := aclEntry{Tag: aclUser, Perm: aclExecute, ID: uint32(uid)} //nolint:gosec // user ids fit
	entries = slices.DeleteFunc(entries, func(e aclEntry) bool { return e.Tag == granted.Tag && e.ID == granted.ID })
	masked := false
	for _, entry := range entries {
		if entry.Tag == aclMask {
			masked = true
			if entry.Perm&aclExecute == 0 {
				// A wider mask would also give rights to other entries.
				return errors.New("its access control list has a mask without x")
			}
		}
	}
	if !masked {
		i := slices.IndexFunc(entries, func(e aclEntry) bool { return e.Tag == aclGroupOwner })
		entries = append(entries, aclEntry{Tag: aclMask, Perm: entries[i].Perm | aclExecute, ID: aclNoID})
	}
	entries = append(entries, granted)
	slices.SortFunc(entries, func(a, b aclEntry) int {
		if a.Tag != b.Tag {
			return int(a.Tag) - int(b.Tag)
		}
		return int(int64(a.ID) - int64(b.ID))
	})
	var encoded bytes.Buffer
	if err := errors.Join(
		binary.Write(&encoded, binary.LittleEndian, uint32(aclVersion)),
		binary.Write(&encoded, binary.LittleEndian, entries),
	); err != nil {
		return fmt.Errorf("encode access control list: %w", err)
	}
	if err := syscall.Setxattr(dir, aclAttribute, encoded.Bytes(), 0); err != nil {
		return fmt.Errorf("set access control list: %w", err)
	}
	return nil
}

// readACL returns the access control list of a directory, or the equivalent of its mode bits if it has none.
func readACL(dir string) ([]aclEntry, error) {
	encoded := make([]byte, aclMaxSize)
	size, err := syscall.Getxattr(dir, aclAttribute, encoded)
	if errors.Is(err, syscall.ENODATA) {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, fmt.Errorf("stat directory: %w", err)
		}
		mode := uint16(info.Mode().Perm()) //nolint:gosec // nine bits
		return []aclEntry{
			{aclUserOwner, mode >> 6 & 7, aclNoID},
			{aclGroupOwner, mode >> 3 & 7, aclNoID},
			{aclOther, mode & 7, aclNoID},
		}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get access control list: %w", err)
	}
	var version uint32
	reader := bytes.NewReader(encoded[:size])
	if err := binary.Read(reader, binary.LittleEndian, &version); err != nil || version != aclVersion {
		return nil, fmt.Errorf("access control list has version %d: %w", version, errors.ErrUnsupported)
	}
	entries := make([]aclEntry, reader.Len()/binary.Size(aclEntry{}))
	if err := binary.Read(reader, binary.LittleEndian, entries); err != nil {
		return nil, fmt.Errorf("decode access control list: %w", err)
	}
	return entries, nil
}
