// Package ledgertest makes signed ledgers for tests of what reads them.
package ledgertest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// Origin is the origin of all of them.
const Origin = "ledger.example/test"

// Ledger is a database of a test's own with a key. Nothing is sealed or signed before Sign.
type Ledger struct {
	Pool    *pgxpool.Pool
	URL     string
	Keys    []string // verifier keys
	t       testing.TB
	keyFile string
	id      *ledger.Identity
	signer  *ledger.Signer
}

// New returns an empty one.
func New(t testing.TB) *Ledger {
	t.Helper()
	l := &Ledger{t: t, URL: testdb.New(t), keyFile: filepath.Join(t.TempDir(), "ledger.key")}
	l.open()
	l.SignAs(Origin)
	return l
}

func (l *Ledger) open() {
	l.t.Helper()
	var err error
	if l.Pool, err = database.OpenHistory(l.t.Context(), l.URL); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(l.Pool.Close)
}

// SignAs signs as an origin from now on, which is started if the database does not know it.
func (l *Ledger) SignAs(origin string) {
	l.t.Helper()
	var err error
	config := ledger.IdentityConfig{Origin: origin, KeyFile: l.keyFile}
	if l.id, err = ledger.Identify(l.t.Context(), l.Pool, config); err != nil {
		l.t.Fatal(err)
	}
	l.Keys = l.id.VerifierKeys
	if l.signer, err = ledger.NewSigner(ledger.SignerConfig{Pool: l.Pool, Identity: l.id}); err != nil {
		l.t.Fatal(err)
	}
}

// Backup is the ledger as it is now, in another database: what is appended to this one later, that one has lost.
// Both have the key and the memory.
func (l *Ledger) Backup() *Ledger {
	l.t.Helper()
	l.Pool.Close() // PostgreSQL copies only a database without connections
	backup := &Ledger{t: l.t, URL: testdb.Copy(l.t, l.URL), keyFile: l.keyFile}
	for _, opened := range []*Ledger{l, backup} {
		opened.open()
		opened.SignAs(l.id.Origin)
	}
	return backup
}

// Forget makes the signer forget what it has signed, as an operator can who forges: it removes the checkpoints that
// are remembered outside of the database.
func (l *Ledger) Forget() {
	l.t.Helper()
	remembered, err := filepath.Glob(filepath.Join(l.id.Memory, "*.checkpoint"))
	if err != nil || len(remembered) == 0 {
		l.t.Fatalf("%d checkpoints are remembered, %v", len(remembered), err)
	}
	for _, file := range remembered {
		if err := os.Remove(file); err != nil {
			l.t.Fatal(err)
		}
	}
}

// Exec runs SQL.
func (l *Ledger) Exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.Pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatal(err)
	}
}

// Tamper runs SQL as a superuser can who switches the triggers off that guard log and ledger.
func (l *Ledger) Tamper(sql string) {
	l.t.Helper()
	l.Exec(`DO $do$
		DECLARE guard record;
		BEGIN
			CREATE TEMPORARY TABLE guards ON COMMIT DROP AS SELECT tgrelid::regclass AS of, tgname, tgenabled::text AS mode
				FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D';
			FOR guard IN SELECT * FROM guards LOOP
				EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', guard.of, guard.tgname);
			END LOOP;
			` + sql + `;
			FOR guard IN SELECT * FROM guards LOOP
				EXECUTE format('ALTER TABLE %s ENABLE %s TRIGGER %I', guard.of,
					CASE guard.mode WHEN 'A' THEN 'ALWAYS' END, guard.tgname);
			END LOOP;
		END $do$`)
}

// Latest returns the newest checkpoint.
func (l *Ledger) Latest() ledger.Checkpoint {
	l.t.Helper()
	c, err := ledger.NewStore(l.Pool).Latest(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// appendSQL appends comments, in streams of their own, and every seventh time a novel's event, in one of few streams
// without personal part. $1: how many.
const appendSQL = `WITH n AS (SELECT coalesce(max(stream_version), 0) AS before FROM events WHERE stream_id = md5('one novel')::uuid)
INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, integration_id, event_source,
    event_type, data, personal, salt, key_id, request_id, batch_id, fingerprint)
SELECT i, kind, CASE kind WHEN 'post'
           THEN encode(substring(sha256(uuid_send(integration) || convert_to(key, 'UTF8')) FOR 16), 'hex')::uuid
           ELSE md5('one novel')::uuid END,
       CASE kind WHEN 'post' THEN 1 ELSE n.before + 1 + i / 7 END,
       key, integration, kind || 's', kind || '.imported.v1',
       json_build_object('chapterNumber', i, 'writtenAt', '2026-01-02T03:04:05Z', 'threadId', md5('t' || i)::uuid,
                         'novelId', md5('n' || i)::uuid, 'parentPostId', NULL),
       CASE kind WHEN 'post' THEN json_build_object('externalUuid', md5('u' || i), 'username', 'reader ' || i,
                                                    'content', repeat('some words of a comment ', 8)) END,
       CASE kind WHEN 'post' THEN gen_random_uuid() END,
       md5('k')::uuid, md5('r' || i), md5('b')::uuid, md5('f' || i)::uuid
FROM n, generate_series(0, $1::integer - 1) AS i,
     LATERAL (SELECT CASE i % 7 WHEN 3 THEN 'novel' ELSE 'post' END, 'evt-' || gen_random_uuid(),
                     uuid '3f0e6f0a-6a5e-4a5e-9d0a-0a6a5e4a5e9d') AS k (kind, key, integration)`

// perTransaction is how many events at most are appended together: a long transaction holds up the logs of all tests on
// the server.
const perTransaction = 5000

// Append appends a number of events, and signs.
func (l *Ledger) Append(n int) {
	l.t.Helper()
	for ; n > perTransaction; n -= perTransaction {
		l.Exec(appendSQL, perTransaction)
	}
	l.Exec(appendSQL, n)
	l.Sign()
}

// Sign seals and signs everything and returns the number of entries.
func (l *Ledger) Sign() int64 {
	l.t.Helper()
	sealer := ledger.NewSealer(ledger.SealerConfig{
		Pool: l.Pool, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); sealer.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	var status ledger.Status
	testdb.Eventually(l.t, "everything is sealed", func() bool {
		var err error
		if status, err = ledger.ReadStatus(l.t.Context(), l.Pool); err != nil {
			l.t.Fatal(err)
		}
		if status.Error != nil {
			l.t.Fatal(*status.Error)
		}
		// A transaction of another test can hold the log back: what has not settled does not count as unsealed.
		var stored int64
		if err := l.Pool.QueryRow(l.t.Context(), `SELECT count(*) FROM events`).Scan(&stored); err != nil {
			l.t.Fatal(err)
		}
		return status.Size == stored
	})
	if err := l.signer.Sign(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	return status.Size
}
