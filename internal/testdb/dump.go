package testdb

import (
	"bytes"
	"context"
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Dump returns what pg_dump writes of a database: plain text, all schemas. It is the pg_dump beside the server's own
// programs, or one on PATH; false when there is none that is at least as new as the server.
func Dump(t testing.TB, databaseURL string) ([]byte, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	program := findDump(ctx, t, databaseURL)
	if program == "" {
		t.Log("there is no pg_dump for this server")
		return nil, false
	}
	var dump, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "--format=plain", "--dbname="+databaseURL) //nolint:gosec // found as a shell would
	cmd.Stdout, cmd.Stderr = &dump, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("testdb: %s: %v\n%s", program, err, &said)
	}
	return dump.Bytes(), true
}

func findDump(ctx context.Context, t testing.TB, databaseURL string) string {
	t.Helper()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatalf("testdb: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var number string
	if err := conn.QueryRow(ctx, `SHOW server_version_num`).Scan(&number); err != nil {
		t.Fatalf("testdb: ask for the version: %v", err)
	}
	var candidates []string
	var bindir string // the server may be on another machine, or its role not allowed to know
	if err := conn.QueryRow(ctx, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&bindir); err == nil {
		candidates = append(candidates, filepath.Join(bindir, "pg_dump"))
	}
	for _, candidate := range append(candidates, "pg_dump") {
		path, err := exec.LookPath(candidate)
		if err == nil && majorOf(ctx, path) >= major(number) {
			return path
		}
	}
	return ""
}

var versionText = regexp.MustCompile(`PostgreSQL\) (\d+)`)

// majorOf asks a program for its major version; 0 when it does not say.
func majorOf(ctx context.Context, program string) int {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	match := versionText.FindSubmatch(out)
	if err != nil || match == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(match[1])) // it is digits
	return n
}

// major is the major version in server_version_num, such as 15 in 150012.
func major(number string) int {
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n / 10_000
}

// holdingDump names the tables in whose data a dump holds one of the words, as they are or as bytes are dumped, in
// hexadecimal digits.
func holdingDump(dump []byte, words []string) (held []string) {
	sought := make([][]byte, 0, 2*len(words))
	for _, word := range words {
		sought = append(sought, []byte(word), []byte(hex.EncodeToString([]byte(word))))
	}
	table := "the schema"
	for line := range bytes.Lines(dump) {
		if rest, ok := bytes.CutPrefix(line, []byte("COPY ")); ok {
			name, _, _ := strings.Cut(string(rest), " ")
			table = name
		}
		if slices.ContainsFunc(sought, func(word []byte) bool { return bytes.Contains(line, word) }) &&
			!slices.Contains(held, "pg_dump of "+table) {
			held = append(held, "pg_dump of "+table)
		}
		if bytes.HasPrefix(line, []byte(`\.`)) {
			table = "the schema"
		}
	}
	return held
}
