package pgserver

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// recovery is what a server is restored from.
type recovery struct {
	Backup

	dir string    // the backup directory
	to  time.Time // zero: the end of the archived WAL
}

// Restore restores a base backup and archived WAL into the data directory of cfg, which must be empty except for a
// signer directory, to a moment, or to the end of the archived WAL if to is zero. A transaction that committed exactly
// then is restored. It returns the server when the recovery is complete, and the backup that it used. If it fails, it
// leaves no data.
//
// It fails if a file of the backup is damaged, or WAL before the moment or the end is missing: it never restores less
// than it was told to. If the process is killed, PostgreSQL refuses to start on what it has left.
func Restore(ctx context.Context, cfg Config, dir string, to time.Time) (*Server, Backup, error) {
	dir, err := resolveDir(dir)
	if err != nil {
		return nil, Backup{}, err
	}
	r := &recovery{dir: dir, to: to}
	if r.Backup, err = choose(dir, to); err != nil {
		return nil, r.Backup, err
	}
	s, err := open(ctx, cfg, r)
	if err == nil {
		if err = s.checkEnd(ctx); err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)), os.RemoveAll(s.cluster))
		}
	}
	switch {
	case err != nil && strings.Contains(err.Error(), "before configured recovery target was reached"):
		return nil, r.Backup, fmt.Errorf("no archived transaction is as late as --to, or WAL before it is missing: without "+
			"--to, restore goes to the end of the archive and tells which: %w", err)
	case err != nil:
		return nil, r.Backup, fmt.Errorf("restore %s: %w", filepath.Join(dir, r.Name), err)
	}
	return s, r.Backup, nil
}

// choose returns the newest backup that can be restored to a moment, or to the end.
func choose(dir string, to time.Time) (Backup, error) {
	list, err := backups(dir)
	if err != nil {
		return Backup{}, err
	}
	if len(list) == 0 {
		return Backup{}, fmt.Errorf("there is no complete base backup in %s", dir)
	}
	for _, b := range slices.Backward(list) {
		if to.IsZero() || !to.Before(b.Ended) {
			return b, nil
		}
	}
	return Backup{}, fmt.Errorf("the oldest base backup in %s ended at %s: it cannot be restored to an earlier moment",
		dir, list[0].Ended.UTC().Format(time.RFC3339Nano))
}

// checkEmpty fails unless a data directory has at most a lock and a signer directory.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read data directory: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "lock" && name != "signer" {
			return fmt.Errorf("the data directory %s is not empty (%s): restore into an empty one, or delete what an "+
				"interrupted restore has left", dir, name)
		}
	}
	return nil
}

// unpack writes the files of the backup. It makes sure that PostgreSQL does not start on them without the WAL.
func (s *Server) unpack(ctx context.Context, r *recovery) (err error) {
	base := filepath.Join(r.dir, r.Name)
	m, err := readManifest(base)
	if err != nil {
		return err
	}
	want := map[string]string{} // checksums that were not found yet
	for _, file := range m.Files {
		want[file.Path] = file.Checksum
	}
	file, err := os.Open(filepath.Join(base, baseFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	uncompressed, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", file.Name(), err)
	}
	if err := os.Mkdir(s.cluster, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.cluster)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	u := unpacking{root: root, as: s.as}
	if err := errors.Join(u.handOver("."), u.file("recovery.signal", nil, io.Discard)); err != nil {
		return err
	}
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file.Name(), err)
		}
		name := filepath.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = u.directory(name)
		case tar.TypeReg:
			sum := sha256.New()
			if err = u.file(name, archive, sum); err == nil && want[name] != hex.EncodeToString(sum.Sum(nil)) {
				err = fmt.Errorf("%s is damaged: it has another checksum in %s", name, manifestFile)
			}
			delete(want, name)
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", name)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", file.Name(), err)
		}
	}
	for name := range want {
		return fmt.Errorf("%s is damaged: it lacks %s", file.Name(), name)
	}
	return root.RemoveAll("log") // so that the log is that of the recovery
}

// unpacking writes files that belong to the server's account. The server syncs them when it starts.
type unpacking struct {
	root *os.Root
	as   account
}

func (u unpacking) directory(name string) error {
	if err := u.root.Mkdir(name, 0o700); err != nil && name != "." {
		return err
	}
	return u.handOver(name)
}

// file copies a file, and also writes it to sum.
func (u unpacking) file(name string, content io.Reader, sum io.Writer) error {
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if content != nil {
		_, err = io.Copy(io.MultiWriter(file, sum), content)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return u.handOver(name)
}

func (u unpacking) handOver(name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return u.root.Lchown(name, u.as.uid, u.as.gid)
}

// checkEnd fails if a recovery to the end has not replayed all archived WAL of its timeline: a file is missing.
func (s *Server) checkEnd(ctx context.Context) error {
	if !s.recovery.to.IsZero() {
		return nil // PostgreSQL fails when it does not reach the moment
	}
	segments, err := archived(s.recovery.dir)
	if err != nil {
		return err
	}
	conn, err := connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var last string
	var at *time.Time
	if err := conn.QueryRow(ctx, `SELECT pg_walfile_name(pg_last_wal_replay_lsn()), pg_last_xact_replay_timestamp()`).
		Scan(&last, &at); err != nil {
		return fmt.Errorf("ask for the end of the recovery: %w", err)
	}
	if newest := slices.Max(append(segments, s.recovery.LastWAL)); segmentNumber(last) < segmentNumber(newest) {
		return fmt.Errorf("WAL is missing: the archive in %s goes on to %s, but what follows %s is not there. What was "+
			"committed before %v can be restored with --to", filepath.Join(s.recovery.dir, walDir), newest, last, at)
	}
	return nil
}
