// Package migrations contains the schema of the database, one numbered SQL file per step, and applies it.
//
// Replicas of two versions run side by side during a rollout, so a step only expands the schema (new tables, new
// nullable columns). A step of a later release contracts it.
package migrations

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"novelgate/internal/database"
)

//go:embed *.sql
var files embed.FS

// connectTimeout limits the wait for a server that accepts connections but does not answer, unless the URL sets a
// limit.
const connectTimeout = 5 * time.Second

// settings are the settings of the session. The server must send notices, because they are part of the result.
var settings = map[string]string{"application_name": "novelgate-migrate", "client_min_messages": "notice"}

// raised is the SQLSTATE of RAISE NOTICE.
const raised = "00000"

// Result says what Apply did.
type Result struct {
	Version int64    `json:"version"` // schema version now in force
	Applied []string `json:"applied"` // names of the steps that this call applied, in order; empty when none was due
	// Notices say what a step could not do because the role lacks a right, and what to do about it, or that the schema is
	// that of a newer version.
	Notices []string `json:"notices,omitempty"`
}

// Apply brings the database at databaseURL to the newest schema. Several replicas may call it at once: one applies the
// steps, the others wait for it and find nothing left to do. It fails if database.CheckServer or database.CheckSchema
// fails, even if no step is due. A database.Watch in ctx tells what it waits for.
func Apply(ctx context.Context, databaseURL string) (result Result, err error) {
	pool, err := database.ParseConfig(databaseURL, settings)
	if err != nil {
		return Result{}, err
	}
	database.RefuseOldPrimary(ctx, pool)
	config := pool.ConnConfig
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeout)
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		// Only the notices that a step raises: those of PostgreSQL, such as for IF EXISTS, do not matter.
		if notice.Code == raised {
			result.Notices = append(result.Notices, strings.TrimSpace(notice.Message+" "+notice.Hint))
		}
	}
	if err := check(ctx, config); err != nil {
		return Result{}, err
	}
	defer database.Polls(ctx, lock.DefaultLockID)()
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()

	// The lock is polled once a second, for at most five minutes; it is not taken when nothing is pending.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return Result{}, fmt.Errorf("create migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return Result{}, fmt.Errorf("load migrations: %w", err)
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("apply migrations: %w", err)
	}
	result.Applied = make([]string, 0, len(applied))
	for _, step := range applied {
		result.Applied = append(result.Applied, strings.TrimSuffix(path.Base(step.Source.Path), ".sql"))
	}
	if result.Version, err = provider.GetDBVersion(ctx); err != nil {
		return Result{}, fmt.Errorf("read schema version: %w", err)
	}
	known, err := newest()
	if result.Version > known {
		result.Notices = append(result.Notices, fmt.Sprintf("The schema has version %d and was made by a newer version of "+
			"novelgate; this program knows version %d: update it once the rollout is complete.", result.Version, known))
	}
	return result, err
}

// check refuses a database on which no step may be tried.
func check(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // there is nothing to lose
	if err := database.CheckServer(ctx, conn, true); err != nil {
		return err
	}
	return database.CheckSchema(ctx, conn)
}

// Reasons to refuse a standby.
var (
	ErrOlder = errors.New("the standby has the schema of an older version of novelgate: run `novelgate migrate` on the " +
		"primary, or start a replica of this version there, and wait until the standby has replayed it")
	ErrNewer = errors.New("the standby has the schema of a newer version of novelgate: use that version")
)

const versionSQL = `SELECT coalesce(max(version_id), 0) FROM goose_db_version`

// CheckStandby fails with ErrOlder, ErrNewer or database.ErrOldForm unless a standby, which cannot be migrated, has the
// newest schema.
func CheckStandby(ctx context.Context, db database.Querier) error {
	var migrated bool
	var version int64
	err := db.QueryRow(ctx, `SELECT to_regclass('public.goose_db_version') IS NOT NULL`).Scan(&migrated)
	if err == nil && migrated {
		if err := database.CheckSchema(ctx, db); err != nil {
			return err
		}
		err = db.QueryRow(ctx, versionSQL).Scan(&version)
	}
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	newest, err := newest()
	switch {
	case err != nil:
		return err
	case version < newest:
		return fmt.Errorf("%w (schema version %d, %d is needed)", ErrOlder, version, newest)
	case version > newest:
		return fmt.Errorf("%w (schema version %d, %d is needed)", ErrNewer, version, newest)
	}
	return nil
}

// newest returns the version of the last step.
func newest() (version int64, err error) {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err == nil {
		version, err = goose.NumericComponent(names[len(names)-1])
	}
	if err != nil {
		return 0, fmt.Errorf("find the newest migration: %w", err)
	}
	return version, nil
}

// Hash returns a hex digest of all steps. Databases that were built from steps with the same Hash have the same schema.
func Hash() string {
	digest := sha256.New()
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file system is compiled in
		}
		fmt.Fprintf(digest, "%s %d\n", name, len(content))
		digest.Write(content)
	}
	return hex.EncodeToString(digest.Sum(nil))
}
