package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

// BackupFlag is where a server that the command starts archives its WAL.
type BackupFlag struct {
	BackupDir string `env:"NOVELGATE_BACKUP_DIR" placeholder:"DIR" help:"Directory on another disk into which the embedded PostgreSQL archives its WAL, for novelgate backup and restore (default: none)."`
}

// AfterApply passes the flag on; kong calls it.
func (f BackupFlag) AfterApply(env *environment) error { //nolint:unparam // kong demands an error
	env.backupDir = f.BackupDir
	return nil
}

// errOwnServer refuses to back up a server of the operator.
var errOwnServer = errors.New("this is for the embedded PostgreSQL, and there is a --database-url: for a server of " +
	`your own, see "Backup, and restore to a moment" in docs/high-availability.md`)

type backupCommand struct {
	CommonFlags
	Dir  string `arg:"" env:"NOVELGATE_BACKUP_DIR" help:"Backup directory: the --backup-dir of the running serve."`
	Keep int    `placeholder:"N" help:"Keep the newest N base backups and the WAL that they need, and delete older ones (default: delete nothing)."`
}

func (*backupCommand) Help() string {
	return "Makes a base backup of the embedded PostgreSQL while it runs. It can be restored to its own end, and to any " +
		"later moment as far as WAL is archived. It has no signer directory: back up only the file key of that, apart."
}

// Validate refuses to keep fewer than no backups; kong calls it.
func (c *backupCommand) Validate() error {
	if c.Keep < 0 {
		return errors.New("--keep must be at least 1; 0 deletes nothing")
	}
	return nil
}

func (c *backupCommand) run(ctx context.Context, env *environment) error {
	if c.DatabaseURL != "" {
		return errOwnServer
	}
	b, err := pgserver.BackUp(ctx, c.DataDir, c.Dir, func(warning string) {
		fmt.Fprintln(env.stderr, "PostgreSQL warns:", warning)
	})
	if err != nil {
		return err
	}
	made := struct {
		pgserver.Backup

		Deleted []string `json:"deleted"`
	}{Backup: b}
	if c.Keep > 0 {
		if made.Deleted, err = pgserver.Prune(c.Dir, c.Keep); err != nil {
			err = fmt.Errorf("%s is complete, but older backups are still there: %w", b.Name, err)
		}
	}
	return env.show(result{made, func(env *environment) {
		fmt.Fprintf(env.stdout, "%s is complete: it can be restored to %s or later.\n", b.Name,
			b.Ended.UTC().Format(time.RFC3339Nano))
		for _, name := range made.Deleted {
			fmt.Fprintln(env.stdout, "deleted", name)
		}
		fmt.Fprintln(env.stdout, "It has no signer directory. Back up only the file key of that, apart.")
	}}, err)
}

type restoreCommand struct {
	CommonFlags
	Dir string    `arg:"" env:"NOVELGATE_BACKUP_DIR" help:"Backup directory."`
	To  time.Time `placeholder:"TIME" help:"Moment, such as 2026-11-28T03:46:25Z: what was committed then or before is restored (default: all that is archived)."`
}

func (*restoreCommand) Help() string {
	return "Restores into an empty --data-dir, on which serve then starts. It restores exactly what it was told to, or " +
		"fails. A signer directory may be there already."
}

func (c *restoreCommand) run(ctx context.Context, env *environment) error {
	if c.DatabaseURL != "" {
		return errOwnServer
	}
	config := pgserver.Config{DataDir: c.DataDir, Logger: env.logger()}
	server, b, err := pgserver.Restore(ctx, config, c.Dir, c.To)
	if err != nil {
		return err
	}
	restored := struct {
		Backup     string     `json:"backup"`
		LastEvent  *int64     `json:"lastEvent"`
		RecordedAt *time.Time `json:"recordedAt"`
		Signed     *int64     `json:"signed"`
	}{Backup: b.Name}
	pool, err := database.OpenGeneral(ctx, server.URL())
	if err == nil {
		err = pool.QueryRow(ctx, `SELECT last.log_index, last.recorded_at, (SELECT max(tree_size) FROM ledger_checkpoints)
			FROM (VALUES (1)) AS one LEFT JOIN LATERAL
				(SELECT log_index, recorded_at FROM events ORDER BY log_index DESC LIMIT 1) AS last ON true`).
			Scan(&restored.LastEvent, &restored.RecordedAt, &restored.Signed)
		pool.Close()
	}
	if err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))); err != nil {
		return fmt.Errorf("the restore is complete, but: %w", err)
	}
	return env.show(result{restored, func(env *environment) {
		end := "the end of the archived WAL"
		if !c.To.IsZero() {
			end = c.To.UTC().Format(time.RFC3339Nano)
		}
		fmt.Fprintf(env.stdout, "Restored %s and its WAL, to %s.\n", b.Name, end)
		if restored.LastEvent != nil {
			fmt.Fprintf(env.stdout, "The last event is %d, recorded at %s. Commands acknowledged later are lost.\n",
				*restored.LastEvent, restored.RecordedAt.UTC().Format(time.RFC3339Nano))
		}
		fmt.Fprintln(env.stdout, "Serve it with the signer directory that was in use, never a copy. If that is lost, or has "+
			"signed more events, begin a new --ledger-origin.")
		fmt.Fprintln(env.stdout, "Erase again the authors who were erased later.")
	}}, nil)
}

// archiveStateSQL returns whether WAL is archived, and how long the oldest file has waited for it, in seconds.
const archiveStateSQL = `SELECT current_setting('archive_mode') <> 'off', coalesce((
	SELECT max(extract(epoch FROM clock_timestamp() - modification)) FROM pg_ls_archive_statusdir()
	WHERE name LIKE '%.ready'), 0)::float8`

// archivePatience is how long a WAL file may wait: the disk of the backups may be slow for a while.
const archivePatience = 2 * time.Minute

// archiveState returns whether the server archives WAL, and how long that has waited.
func archiveState(ctx context.Context, pool *pgxpool.Pool) (archives bool, waits time.Duration, err error) {
	var seconds float64
	if err := pool.QueryRow(ctx, archiveStateSQL).Scan(&archives, &seconds); err != nil {
		return false, 0, fmt.Errorf("read the state of the archive: %w", err)
	}
	return archives, time.Duration(seconds * float64(time.Second)), nil
}

// archiving is the part that watches the backup directory. A failure stops no command, until WAL fills the disk.
func (s *shared) archiving(dir string) part {
	waiting := registered(s.metrics, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_backup_wal_waiting_seconds",
		Help: "Time that the oldest WAL file has waited to be archived into --backup-dir.",
	}))
	newest := registered(s.metrics, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_backup_base_timestamp_seconds",
		Help: "When the newest base backup in --backup-dir was complete; 0: there is none, or one is damaged.",
	}))
	const interval, repeat = 10 * time.Second, 10 * time.Minute
	return part{"archiving", always(func(ctx context.Context) {
		var said time.Time
		for more := true; more; more = eventlog.Sleep(ctx, interval) {
			newest.Set(newestBackup(dir))
			_, waits, err := archiveState(ctx, s.pools.General)
			if err != nil {
				continue // the database is away, which others log
			}
			waiting.Set(waits.Seconds())
			if waits > archivePatience && s.now().Sub(said) > repeat {
				said = s.now()
				s.logger.ErrorContext(ctx, "WAL is not archived: backups do not have the newest commands, and WAL will fill the "+
					"disk. PostgreSQL's log has the cause", slog.Duration("waiting", waits.Round(time.Second)))
			}
		}
	})}
}

// newestBackup returns the moment of the newest base backup in seconds; 0 for none.
func newestBackup(dir string) float64 {
	ended, err := pgserver.NewestBackup(dir)
	if err != nil || ended.IsZero() {
		return 0
	}
	return float64(ended.Unix())
}

// checkArchive checks the archiving of WAL on the embedded server.
func checkArchive(archives bool, waits time.Duration, err error) database.Finding {
	f := database.Finding{Check: "backup", Status: database.OK, Found: "WAL is archived"}
	switch {
	case err != nil:
		f.Status, f.Found, f.Advice = database.Warn, err.Error(), "run this as the user of the server"
	case !archives:
		f.Status, f.Found = database.Warn, "WAL is not archived"
		f.Advice = "serve with --backup-dir on another disk: if this one is lost, so is a minute at most"
	case waits > archivePatience:
		f.Status, f.Found = database.Fail, fmt.Sprintf("WAL has waited to be archived for %v", waits.Round(time.Second))
		f.Advice = "see PostgreSQL's log: backups lack the newest commands, and WAL will fill the disk"
	}
	return f
}
