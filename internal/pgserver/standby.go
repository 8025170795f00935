package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// StartStandby copies a running primary into the empty cfg.DataDir, and starts the copy as a hot standby that streams
// from the primary. It does what pg_basebackup does, which the PostgreSQL packages on npm lack.
func (s *Server) StartStandby(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.DataDir, err = makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return nil, fmt.Errorf("connect to the primary: %w", err)
	}
	// Closing the connection drops the temporary replication slot that copyTo creates.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := s.copyTo(ctx, conn, layout{cfg.DataDir}); err != nil {
		return nil, fmt.Errorf("copy the primary: %w", err)
	}
	return Start(ctx, cfg)
}

// copyTo makes a base backup with the low-level interface (PostgreSQL's documentation, "Making a Base Backup Using the
// Low Level API"). Until conn is closed the primary keeps the WAL that the copy needs.
func (s *Server) copyTo(ctx context.Context, conn *pgx.Conn, to layout) error {
	majors, err := s.layout.majorVersions()
	if err != nil {
		return err
	}
	existing, err := to.majorVersions()
	if err != nil {
		return err
	}
	if len(existing) > 0 {
		return fmt.Errorf("%s has data already", to.dir)
	}
	from := s.layout.cluster(majors[0])
	owner, err := chooseAccount(from)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(to.dir, filepath.Base(from)+".init-*")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // renamed already, unless something failed
	const slotSQL = `SELECT FROM pg_create_physical_replication_slot('copy_' || pg_backend_pid(), true, true)`
	if _, err := conn.Exec(ctx, slotSQL); err != nil {
		return fmt.Errorf("reserve the WAL: %w", err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_backup_start('standby', true)`); err != nil {
		return fmt.Errorf("start the backup: %w", err)
	}
	if err := owner.copyCluster(ctx, temp, from); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, `SELECT labelfile FROM pg_backup_stop(false)`).Scan(&label); err != nil {
		return fmt.Errorf("stop the backup: %w", err)
	}
	err = errors.Join(
		owner.appendTo(filepath.Join(temp, "backup_label"), label),
		owner.appendTo(filepath.Join(temp, "standby.signal"), ""),
		// The URL has no apostrophe, because its parts are escaped.
		owner.appendTo(filepath.Join(temp, "postgresql.auto.conf"), "\nprimary_conninfo = '"+s.url+"'\n"),
	)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, to.cluster(majors[0])); err != nil {
		return fmt.Errorf("put the copy into place: %w", err)
	}
	return nil
}

// notCopied lists the files that a copy leaves out, and the directories whose contents it leaves out.
var notCopied = []string{
	"postmaster.pid", "postmaster.opts",
	"pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans",
}

// copyCluster copies the data directory of a running server into an existing directory. It tolerates files that vanish
// or change meanwhile, because recovery applies the changes again from the WAL.
func (a account) copyCluster(ctx context.Context, to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(from, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || relErr != nil || ctx.Err() != nil:
			return errors.Join(err, relErr, ctx.Err())
		case name == ".":
			return a.chown(to)
		case entry.IsDir() && slices.Contains(notCopied, filepath.Dir(name)):
			return filepath.SkipDir // PostgreSQL makes those in pg_wal again
		case entry.IsDir():
			if err := os.Mkdir(filepath.Join(to, name), 0o700); err != nil {
				return fmt.Errorf("make directory: %w", err)
			}
			return a.chown(filepath.Join(to, name))
		case slices.Contains(notCopied, name), slices.Contains(notCopied, filepath.Dir(name)),
			strings.HasPrefix(entry.Name(), "pgsql_tmp"), !entry.Type().IsRegular():
			return nil
		}
		return a.copyFile(filepath.Join(to, name), path)
	})
}

// copyFile copies a file, unless it has vanished.
func (a account) copyFile(to, from string) error {
	source, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open file of the primary: %w", err)
	}
	defer source.Close() //nolint:errcheck // it was only read
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	if _, err := io.Copy(target, source); err != nil {
		return errors.Join(fmt.Errorf("copy file: %w", err), target.Close())
	}
	return errors.Join(target.Close(), a.chown(to))
}

// appendTo appends text to a file of the copy, and creates the file if needed.
func (a account) appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open file of the copy: %w", err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close(), a.chown(path))
}
