// Package sandbox creates, lists, wipes and deletes the databases of sandboxes. A sandbox is an installation with its
// own database, on the server of the main database, with its own log, tables and views. So readers of the main database
// never see data of a sandbox. See docs/decisions/0023-sandbox.md.
//
// The database of the sandbox "k3f9" of the main database "novelgate" is "novelgate_sandbox_k3f9". No table lists the
// sandboxes; List finds databases by name.
package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/migrations"
)

// Errors of names and databases.
var (
	ErrName   = errors.New("the name of a sandbox has four characters: a-z and 0-9")
	ErrNested = errors.New("this is the database of a sandbox")
)

const (
	infix      = "_sandbox_"
	incomplete = "_sandbox-new_" // instead of infix, until the database is complete
	nameLen    = 4
	maxMainLen = 63 - len(incomplete) - nameLen // of the main database's name: PostgreSQL truncates names to 63 bytes
	alphabet   = "0123456789abcdefghijklmnopqrstuvwxyz"
)

var sandboxDatabase = regexp.MustCompile(infix + `([0-9a-z]{4})$`)

// Of returns the name of the sandbox to which a database belongs; "" for the main database.
func Of(databaseName string) string {
	if found := sandboxDatabase.FindStringSubmatch(databaseName); found != nil {
		return found[1]
	}
	return ""
}

// URL returns the URL of the database of a sandbox. mainURL is the URL of the main database.
func URL(mainURL, name string) (string, error) {
	config, err := database.ParseConfig(mainURL, nil)
	if err != nil {
		return "", err
	}
	main := config.ConnConfig.Database
	switch {
	case Of(main) != "":
		return "", ErrNested
	case name == "" || Of(infix+name) != name:
		return "", ErrName
	case len(main) > maxMainLen:
		return "", fmt.Errorf("sandboxes need a database with a name of at most %d bytes, not %q", maxMainLen, main)
	}
	return withDatabase(mainURL, main+infix+name), nil
}

// withDatabase replaces the database in a connection URL, or in a connection string of keywords and values.
func withDatabase(databaseURL, name string) string {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return databaseURL + " dbname=" + name // the last keyword wins
	}
	query := u.Query()
	query.Del("dbname")
	u.Path, u.RawPath, u.RawQuery = "/"+name, "", query.Encode()
	return u.String()
}

// List returns the OID of the database of each sandbox, by name. Wipe changes the OID.
func List(ctx context.Context, main *pgxpool.Pool) (map[string]uint32, error) {
	type row struct {
		Name string
		ID   uint32
	}
	rows, err := database.Collect(ctx, main, "sandboxes", pgx.RowToStructByPos[row], `SELECT datname, oid FROM pg_database
WHERE starts_with(datname, current_database() || '`+infix+`')`)
	list := map[string]uint32{}
	for _, r := range rows {
		if name := Of(r.Name); r.Name == main.Config().ConnConfig.Database+infix+name {
			list[name] = r.ID
		}
	}
	return list, err
}

// Create creates a sandbox with a random name. fill fills its database; List finds the sandbox only afterwards.
func Create(ctx context.Context, main *pgxpool.Pool, fill func(sandboxURL, name string) error) error {
	random := make([]byte, nameLen)
	_, _ = rand.Read(random) // never fails: it aborts the program instead
	for i, c := range random {
		random[i] = alphabet[int(c)%len(alphabet)]
	}
	name := string(random)
	return build(ctx, main, name, func(sandboxURL string) error { return fill(sandboxURL, name) })
}

// Wipe replaces the database of a sandbox with an empty one. fill copies the data to keep from the old database.
func Wipe(
	ctx context.Context, main *pgxpool.Pool, name string, fill func(oldURL, newURL string) error,
) error {
	old, err := URL(main.Config().ConnString(), name)
	if err != nil {
		return err
	}
	return build(ctx, main, name, func(newURL string) error {
		if err := fill(old, newURL); err != nil {
			return err
		}
		return Delete(ctx, main, name)
	})
}

// Delete deletes the database of a sandbox and disconnects its users.
func Delete(ctx context.Context, main *pgxpool.Pool, name string) error {
	if _, err := URL(main.Config().ConnString(), name); err != nil {
		return err
	}
	return execute(ctx, main, `DROP DATABASE `+quoted(main, infix, name)+` WITH (FORCE)`)
}

// build creates a database under a temporary name, calls complete to fill it, and gives it the name of the sandbox's
// database.
func build(
	ctx context.Context, main *pgxpool.Pool, name string, complete func(url string) error,
) (err error) {
	mainURL := main.Config().ConnString()
	if _, err := URL(mainURL, name); err != nil {
		return err
	}
	temporary := quoted(main, incomplete, name)
	drop := `DROP DATABASE IF EXISTS ` + temporary + ` WITH (FORCE)`
	if err := execute(ctx, main, drop); err != nil { // left by a killed process
		return err
	}
	if err := execute(ctx, main, `CREATE DATABASE `+temporary+` TEMPLATE template0 ENCODING 'UTF8'`); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, execute(context.WithoutCancel(ctx), main, drop))
		}
	}()
	// Analysts may connect to the main database only.
	if err := execute(ctx, main, `REVOKE ALL ON DATABASE `+temporary+` FROM PUBLIC`); err != nil {
		return err
	}
	newURL := withDatabase(mainURL, main.Config().ConnConfig.Database+incomplete+name)
	if err := migrations.Up(ctx, newURL); err != nil {
		return fmt.Errorf("migrate the sandbox: %w", err)
	}
	if err := complete(newURL); err != nil {
		return err
	}
	return execute(ctx, main, `ALTER DATABASE `+temporary+` RENAME TO `+quoted(main, infix, name))
}

// quoted returns the name of the database of a sandbox, with infix or incomplete, for SQL.
func quoted(main *pgxpool.Pool, middle, name string) string {
	return pgx.Identifier{main.Config().ConnConfig.Database + middle + name}.Sanitize()
}

func execute(ctx context.Context, main *pgxpool.Pool, sql string) error {
	if _, err := main.Exec(ctx, sql); err != nil {
		return fmt.Errorf("change the databases of sandboxes: %w", err)
	}
	return nil
}
