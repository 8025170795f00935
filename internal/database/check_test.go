package database_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// pretendedServer returns a pool for which the server seems to have other settings: a function current_setting and a
// view pg_settings hide the built-in ones.
func pretendedServer(t *testing.T, settings map[string]string) *pgxpool.Pool {
	t.Helper()
	config := testdb.Must(pgxpool.ParseConfig(testdb.NewEmpty(t)))(t)
	config.ConnConfig.RuntimeParams["search_path"] = "pretended, pg_catalog"
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	testdb.Exec(t, pool, `CREATE SCHEMA pretended; CREATE TABLE pretended.settings (name text, value text);
		CREATE FUNCTION pretended.current_setting(text) RETURNS text LANGUAGE sql AS '
			SELECT value FROM pretended.settings WHERE name = $1';
		CREATE VIEW pretended.pg_settings AS SELECT name, value AS reset_val FROM pretended.settings`)
	for name, value := range settings {
		testdb.Exec(t, pool, `INSERT INTO pretended.settings VALUES ($1, $2)`, name, value)
	}
	return pool
}

func TestCheckServer(t *testing.T) {
	t.Parallel()
	sound := map[string]string{
		"server_version_num": "150018", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
		"server_encoding": "UTF8", "transaction_read_only": "off",
	}
	for name, c := range map[string]struct {
		setting, value      string
		refusal, evenUnsafe error
	}{
		"sound":                     {"", "", nil, nil},
		"newer":                     {"server_version_num", "180001", nil, nil},
		"oldest":                    {"server_version_num", "150000", nil, nil},
		"too old":                   {"server_version_num", "140019", database.ErrTooOld, database.ErrTooOld},
		"another encoding":          {"server_encoding", "SQL_ASCII", database.ErrEncoding, database.ErrEncoding},
		"read-only":                 {"transaction_read_only", "on", database.ErrReadOnly, database.ErrReadOnly},
		"no fsync":                  {"fsync", "off", database.ErrNotDurable, nil},
		"no synchronous commit":     {"synchronous_commit", "off", database.ErrNotDurable, nil},
		"commit waits for the disk": {"synchronous_commit", "local", nil, nil},
		"commit waits for replicas": {"synchronous_commit", "remote_apply", nil, nil},
		"no full pages":             {"full_page_writes", "off", database.ErrNotDurable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := maps.Clone(sound)
			if c.setting != "" {
				settings[c.setting] = c.value
			}
			pool := pretendedServer(t, settings)
			err := database.CheckServer(t.Context(), pool, false)
			if !errors.Is(err, c.refusal) {
				t.Errorf("got %v, want %v", err, c.refusal)
			}
			if errors.Is(c.refusal, database.ErrNotDurable) && !strings.Contains(err.Error(), c.setting+" is off") {
				t.Errorf("%q does not name %s", err, c.setting)
			}
			if err := database.CheckServer(t.Context(), pool, true); !errors.Is(err, c.evenUnsafe) {
				t.Errorf("with unsafe durability allowed: %v, want %v", err, c.evenUnsafe)
			}
		})
	}
}

// TestCheckServerSeesThePoolsOwnSettings: the settings of the pool's sessions count, not the server's defaults.
func TestCheckServerSeesThePoolsOwnSettings(t *testing.T) {
	t.Parallel()
	config := testdb.Must(pgxpool.ParseConfig(testdb.New(t)))(t)
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	defer pool.Close()
	if err := database.CheckServer(t.Context(), pool, false); !errors.Is(err, database.ErrNotDurable) {
		t.Errorf("got %v, want ErrNotDurable", err)
	}
}
