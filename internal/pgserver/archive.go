package pgserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"novelgate/internal/system"
)

// A backup directory belongs to one database cluster:
//
//	system            its system identifier; flock, held by the process whose server archives here
//	wal/NAME.gz       archived WAL, always complete and on disk
//	base-TIME/        a base backup: base.tar.gz, PostgreSQL's backup_manifest, and backup.json, which has a Backup
//	base-TIME.part/   an unfinished or half removed one; removed by the next backup
//	backup.lock       flock, held by a backup
const (
	systemFile   = "system"
	walDir       = "wal"
	baseFile     = "base.tar.gz"
	manifestFile = "backup_manifest"
	backupFile   = "backup.json"
	partSuffix   = ".part"
)

// resolveDir returns the absolute path of a directory that exists, without symbolic links.
func resolveDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the backup directory: %w", err)
	}
	return dir, nil
}

// shellQuote quotes a path for a shell command in a setting, where % is special.
func shellQuote(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "%", "%%").Replace(path) + "'"
}

// archiveCommand returns the archive_command for a backup directory. PostgreSQL runs it as the server's account until
// it succeeds, and may repeat it afterwards. A file gets its name when it is complete and on disk.
func archiveCommand(dir string) string {
	wal := shellQuote(filepath.Join(dir, walDir))
	return `f=` + wal + `/%f.gz; if test -f "$f"; then gzip -dc "$f" | cmp -s - "%p" || ` +
		`{ echo "$f is there with other content: is the backup directory that of another server?" >&2; exit 1; }; else ` +
		`gzip -1 <"%p" >"$f.part" && sync "$f.part" && mv "$f.part" "$f"; fi && sync ` + wal
}

// restoreCommand returns the restore_command. Any status above 125 ends the recovery, so that a damaged file does not
// pass for the end of the archive.
func restoreCommand(dir string) string {
	return `f=` + shellQuote(filepath.Join(dir, walDir)) + `/%f.gz; test -f "$f" || exit 1; gzip -dc "$f" >"%p" || exit 200`
}

// claimArchive makes the backup directory ready for the WAL of the server, which does not run yet. It fails if the
// directory belongs to another database cluster, another server archives into it, or the server's account cannot write
// to it.
func (s *Server) claimArchive(ctx context.Context) (err error) {
	wal := filepath.Join(s.cfg.BackupDir, walDir)
	if err := os.Mkdir(wal, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a directory for WAL: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(wal, s.as.uid, s.as.gid); err != nil {
			return fmt.Errorf("hand over to user %s: %w", s.as.name, err)
		}
	}
	file := filepath.Join(s.cfg.BackupDir, systemFile)
	s.archive, err = system.Lock(file, os.O_RDWR|os.O_CREATE, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, system.ErrLocked) {
		return fmt.Errorf("another server archives its WAL into %s", s.cfg.BackupDir)
	}
	if err != nil {
		return fmt.Errorf("claim the backup directory: %w", err)
	}
	id, err := systemIdentifier(s.cluster)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	switch {
	case err != nil:
		return fmt.Errorf("read the system identifier: %w", err)
	case len(text) == 0:
		if _, err := s.archive.WriteString(id + "\n"); err != nil {
			return fmt.Errorf("write the system identifier: %w", err)
		}
		if err := errors.Join(s.archive.Sync(), system.Sync(s.cfg.BackupDir)); err != nil {
			return err
		}
	case strings.TrimSpace(string(text)) != id:
		return fmt.Errorf("the backup directory %s belongs to another database (system identifier %s, here %s): "+
			"choose another one", s.cfg.BackupDir, strings.TrimSpace(string(text)), id)
	}
	const probe = `gzip -c </dev/null >"$0/probe" && sync "$0/probe" && rm "$0/probe"`
	if err := run(s.as.command(ctx, s.cluster, "/bin/sh", "-c", probe, wal)); err != nil {
		return fmt.Errorf("user %s, who runs PostgreSQL, cannot archive into %s: %w", s.as.name, wal, err)
	}
	s.warnOfGap(ctx)
	return s.archiveHistories()
}

// warnOfGap logs that PostgreSQL has removed WAL that was not archived, because it ran without archiving for a while. A
// backup from before cannot be restored to a moment after that.
func (s *Server) warnOfGap(ctx context.Context) {
	segments, _ := archived(s.cfg.BackupDir)
	kept, _ := os.ReadDir(filepath.Join(s.cluster, "pg_wal"))
	for _, entry := range kept { // the oldest one first
		if name := entry.Name(); segmentName.MatchString(name) {
			if len(segments) > 0 && segmentNumber(name) > segmentNumber(segments[len(segments)-1])+1 {
				s.cfg.Logger.ErrorContext(ctx, "WAL was lost before it was archived, because the server ran without "+
					"--backup-dir: make a base backup now", slog.String("lostAfter", segments[len(segments)-1]),
					slog.String("lostBefore", name))
			}
			return
		}
	}
}

// segmentNumber returns the number of a segment, of 16 MB as initdb makes them, in the WAL of all timelines.
func segmentNumber(segment string) uint64 {
	high, _ := strconv.ParseUint(segment[8:16], 16, 32)
	low, _ := strconv.ParseUint(segment[16:], 16, 32)
	return high<<8 + low
}

// systemIdentifier returns what PostgreSQL identifies a database cluster by, in all its copies. See
// src/include/catalog/pg_control.h.
func systemIdentifier(cluster string) (string, error) {
	content, err := os.ReadFile(filepath.Join(cluster, "global", "pg_control"))
	if err == nil && len(content) < 8 {
		err = fmt.Errorf("%s/global/pg_control is damaged", cluster)
	}
	if err != nil {
		return "", fmt.Errorf("read the system identifier: %w", err)
	}
	return strconv.FormatUint(binary.NativeEndian.Uint64(content), 10), nil
}

// archiveHistories makes PostgreSQL archive the histories of timelines that began without archiving, as that of a
// restored server does. Without them, a later restore from a backup of the timeline before would end where that ended.
func (s *Server) archiveHistories() error {
	histories, err := filepath.Glob(filepath.Join(s.cluster, "pg_wal", "*.history"))
	if err != nil {
		return fmt.Errorf("find timelines: %w", err)
	}
	for _, history := range histories {
		status := filepath.Join(s.cluster, "pg_wal", "archive_status", filepath.Base(history))
		if _, err := os.Stat(status + ".done"); err == nil {
			continue
		}
		ready, err := os.OpenFile(status+".ready", os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil && os.Geteuid() == 0 {
			err = ready.Chown(s.as.uid, s.as.gid)
		}
		if err = errors.Join(err, ready.Close()); err != nil {
			return fmt.Errorf("archive the timeline %s: %w", history, err)
		}
	}
	return nil
}
