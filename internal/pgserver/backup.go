package pgserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/system"
)

// Backup describes a base backup.
type Backup struct {
	Name       string    `json:"name"`       // of its directory
	PostgreSQL int       `json:"postgresql"` // major version
	Began      time.Time `json:"began"`
	Ended      time.Time `json:"ended"`    // it can be restored to this moment and later ones
	FirstWAL   string    `json:"firstWal"` // it needs the archived WAL from here on
	LastWAL    string    `json:"lastWal"`  // and at least to here
}

const (
	// archiveStateSQL returns the archive_command, and the last failure if no success has followed it.
	archiveStateSQL = `SELECT current_setting('archive_command'), (SELECT last_failed_wal || ' at ' || last_failed_time
FROM pg_stat_archiver WHERE last_failed_time > coalesce(last_archived_time, '-infinity'))`
	// baseBackupSQL ends when all WAL that the backup needs is archived.
	baseBackupSQL = `BASE_BACKUP (LABEL 'novelgate', CHECKPOINT 'fast', MANIFEST 'yes', MANIFEST_CHECKSUMS 'SHA256')`
)

// BackUp makes a base backup of the server that runs on dataDir ("": DefaultDataDir()), which must archive its WAL into
// the backup directory (Config.BackupDir). It uses no program of PostgreSQL. warn gets PostgreSQL's warnings.
func BackUp(ctx context.Context, dataDir, dir string, warn func(string)) (b Backup, err error) {
	if dir, err = resolveDir(dir); err != nil {
		return b, err
	}
	url, err := Find(ctx, dataDir)
	if err != nil {
		return b, err
	}
	conn, err := connect(ctx, url)
	if err != nil {
		return b, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var command string
	var failure *string
	if err := conn.QueryRow(ctx, archiveStateSQL).Scan(&command, &failure); err != nil {
		return b, fmt.Errorf("read the state of the archive: %w", err)
	}
	if command != archiveCommand(dir) {
		return b, fmt.Errorf("the server does not archive its WAL into %s: start `novelgate serve` with --backup-dir", dir)
	}
	if failure != nil {
		return b, fmt.Errorf("the server fails to archive its WAL into %s (%s): see PostgreSQL's log", dir, *failure)
	}
	lock, err := system.Lock(filepath.Join(dir, "backup.lock"), os.O_RDWR|os.O_CREATE, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, system.ErrLocked) {
		return b, fmt.Errorf("another backup into %s is running", dir)
	}
	if err != nil {
		return b, fmt.Errorf("claim the backup directory: %w", err)
	}
	defer func() { _ = lock.Close() }() // nothing was written
	unfinished, _ := filepath.Glob(filepath.Join(dir, "base-*"+partSuffix))
	for _, part := range unfinished {
		if err := os.RemoveAll(part); err != nil {
			return b, fmt.Errorf("remove an unfinished backup: %w", err)
		}
	}
	return makeBackup(ctx, conn, dir, warn)
}

// makeBackup makes a base backup in a directory that gets its name when all is on disk.
func makeBackup(ctx context.Context, conn *pgx.Conn, dir string, warn func(string)) (b Backup, err error) {
	if err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int / 10000, clock_timestamp()`).
		Scan(&b.PostgreSQL, &b.Began); err != nil {
		return b, fmt.Errorf("ask the server for its version: %w", err)
	}
	b.Name = b.Began.UTC().Format("base-20060102T150405Z")
	final := filepath.Join(dir, b.Name)
	part := final + partSuffix
	if err := os.Mkdir(part, 0o700); err != nil {
		return b, fmt.Errorf("make a directory for the backup: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(part) // otherwise the next backup does
		}
	}()
	if err := receiveBackup(ctx, conn.Config().Config, part, warn); err != nil {
		return b, fmt.Errorf("back up into %s: %w", final, err)
	}
	m, err := readManifest(part)
	if err != nil {
		return b, err
	}
	const namesSQL = `SELECT pg_walfile_name($1::text::pg_lsn), pg_walfile_name($2::text::pg_lsn), clock_timestamp()`
	if err := conn.QueryRow(ctx, namesSQL, m.WAL[0].Start, m.WAL[len(m.WAL)-1].End).
		Scan(&b.FirstWAL, &b.LastWAL, &b.Ended); err != nil {
		return b, fmt.Errorf("ask the server for the WAL of the backup: %w", err)
	}
	for _, name := range []string{b.FirstWAL, b.LastWAL} {
		if _, err := os.Stat(filepath.Join(dir, walDir, name+".gz")); err != nil {
			return b, fmt.Errorf("find the archived WAL of the backup: %w", err)
		}
	}
	text, err := json.Marshal(b)
	if err == nil {
		err = os.WriteFile(filepath.Join(part, backupFile), append(text, '\n'), 0o600)
	}
	for _, name := range []string{backupFile, manifestFile, baseFile, "."} {
		if err == nil {
			err = system.Sync(filepath.Join(part, name))
		}
	}
	if err == nil {
		err = os.Rename(part, final)
	}
	if err == nil {
		err = system.Sync(dir)
	}
	if err != nil {
		return b, fmt.Errorf("complete the backup: %w", err)
	}
	return b, nil
}

// receiveBackup writes the files that the server sends.
func receiveBackup(ctx context.Context, config pgconn.Config, part string, warn func(string)) (err error) {
	config.RuntimeParams = map[string]string{"replication": "true"}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		// The socket of the server is in its directory.
		if n.Severity == "WARNING" && !strings.HasPrefix(n.Message, "skipping special file") {
			warn(n.Message)
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, &config)
	if err != nil {
		return fmt.Errorf("connect for replication: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var files [2]*os.File
	for i, name := range []string{baseFile, manifestFile} {
		if files[i], err = os.OpenFile(filepath.Join(part, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		defer func() { _ = files[i].Close() }() // closed already, unless something failed
	}
	compressed, err := gzip.NewWriterLevel(files[0], gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := conn.CopyTo(ctx, &backupStream{base: compressed, manifest: files[1]}, baseBackupSQL); err != nil {
		return err
	}
	return errors.Join(compressed.Close(), files[0].Close(), files[1].Close())
}

// backupStream writes the messages of BASE_BACKUP, each by one call of Write: the first byte is the kind. See
// "Streaming Replication Protocol" in PostgreSQL's manual.
type backupStream struct {
	base, manifest io.Writer
	current        io.Writer
}

// Write fails for a server with tablespaces: their files are outside of the data directory.
func (s *backupStream) Write(message []byte) (int, error) {
	switch kind, rest := message[0], message[1:]; kind {
	case 'n':
		if name, _, _ := bytes.Cut(rest, []byte{0}); string(name) != "base.tar" {
			return 0, errors.New("the server has tablespaces: back it up with pg_basebackup")
		}
		s.current = s.base
	case 'm':
		s.current = s.manifest
	case 'd':
		if _, err := s.current.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(message), nil
}

// manifest is PostgreSQL's backup_manifest.
type manifest struct {
	Files []struct {
		Path     string `json:"Path"`
		Checksum string `json:"Checksum"` // SHA-256
	} `json:"Files"`
	WAL []struct {
		Start string `json:"Start-LSN"`
		End   string `json:"End-LSN"`
	} `json:"WAL-Ranges"`
}

func readManifest(base string) (m manifest, err error) {
	text, err := os.ReadFile(filepath.Join(base, manifestFile))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && len(m.WAL) == 0 {
		err = errors.New("it names no WAL")
	}
	if err != nil {
		return m, fmt.Errorf("read %s/%s: %w", base, manifestFile, err)
	}
	return m, nil
}

// backups returns the complete base backups of a backup directory, the oldest first.
func backups(dir string) (list []Backup, err error) {
	found, err := fs.Glob(os.DirFS(dir), "base-*")
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	for _, name := range found {
		if strings.HasSuffix(name, partSuffix) {
			continue
		}
		b := Backup{}
		text, err := os.ReadFile(filepath.Join(dir, name, backupFile))
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s is damaged: move it away: %w", filepath.Join(dir, name), err)
		}
		b.Name = name
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b Backup) int { return a.Ended.Compare(b.Ended) })
	return list, nil
}

// NewestBackup returns the moment to which the newest base backup of a backup directory can be restored at the
// earliest; the zero Time if there is none.
func NewestBackup(dir string) (time.Time, error) {
	list, err := backups(dir)
	if err != nil || len(list) == 0 {
		return time.Time{}, err
	}
	return list[len(list)-1].Ended, nil
}

// Prune deletes all base backups but the newest ones, and the WAL that only the deleted ones need. It returns the names
// of the deleted backups.
func Prune(dir string, keep int) (deleted []string, err error) {
	list, err := backups(dir)
	if err != nil || len(list) <= keep {
		return nil, err
	}
	old, kept := list[:len(list)-keep], list[len(list)-keep:]
	for _, b := range old {
		place := filepath.Join(dir, b.Name)
		if err = os.Rename(place, place+partSuffix); err == nil { // first, so that half a backup never looks complete
			err = os.RemoveAll(place + partSuffix)
		}
		if err != nil {
			return deleted, fmt.Errorf("delete an old backup: %w", err)
		}
		deleted = append(deleted, b.Name)
	}
	segments, err := archived(dir)
	if err != nil {
		return deleted, err
	}
	first := segmentNumber(kept[0].FirstWAL)
	for _, b := range kept { // one of an abandoned timeline may be further than a newer one
		first = min(first, segmentNumber(b.FirstWAL))
	}
	for _, segment := range segments {
		if segmentNumber(segment) < first {
			if err := os.Remove(filepath.Join(dir, walDir, segment+".gz")); err != nil {
				return deleted, fmt.Errorf("delete old WAL: %w", err)
			}
		}
	}
	return deleted, nil
}

// segmentName matches the name of a WAL segment: timeline and position in hexadecimal digits.
var segmentName = regexp.MustCompile(`^[0-9A-F]{24}$`)

// archived returns the names of the archived WAL segments, in their order, timeline by timeline.
func archived(dir string) (segments []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, walDir))
	if err != nil {
		return nil, fmt.Errorf("list archived WAL: %w", err)
	}
	for _, entry := range entries {
		if name, found := strings.CutSuffix(entry.Name(), ".gz"); found && segmentName.MatchString(name) {
			segments = append(segments, name)
		}
	}
	return segments, nil
}
