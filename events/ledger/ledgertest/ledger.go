// Package ledgertest makes signed ledgers for tests.
package ledgertest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// Origin is the origin of all test ledgers.
const Origin = "ledger.example/test"

// Ledger is a test database with a key. Call Sign to seal and sign.
type Ledger struct {
	Pool      *pgxpool.Pool
	URL       string
	Keys      []string // verifier keys
	t         testing.TB
	directory ledger.Directory
	id        *ledger.Identity
	signer    *ledger.Signer
}

// New returns an empty ledger.
func New(t testing.TB) *Ledger {
	t.Helper()
	l := &Ledger{t: t, URL: testdb.New(t), directory: ledger.Directory(filepath.Join(t.TempDir(), "signer"))}
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

// SignAs signs for another origin from now on, and starts it if it is unknown.
func (l *Ledger) SignAs(origin string) {
	l.t.Helper()
	var err error
	config := ledger.IdentityConfig{Origin: origin, Directory: l.directory}
	if l.id, err = ledger.Identify(l.t.Context(), l.Pool, config); err != nil {
		l.t.Fatal(err)
	}
	l.Keys = l.id.VerifierKeys
	l.restart()
}

// restart replaces the signer by one that has signed nothing yet.
func (l *Ledger) restart() {
	l.t.Helper()
	var err error
	if l.signer, err = ledger.NewSigner(ledger.SignerConfig{Pool: l.Pool, Identity: l.id}); err != nil {
		l.t.Fatal(err)
	}
}

// Backup returns a copy of the ledger in another database, without later events. Both have one signer directory.
func (l *Ledger) Backup() *Ledger {
	l.t.Helper()
	l.Pool.Close() // PostgreSQL copies only a database without connections
	backup := &Ledger{t: l.t, URL: testdb.Copy(l.t, l.URL), directory: l.directory}
	for _, opened := range []*Ledger{l, backup} {
		opened.open()
		opened.SignAs(l.id.Origin)
	}
	return backup
}

// Forget removes the notes of the signer directory and restarts the signer, as a forging operator could.
func (l *Ledger) Forget() {
	l.t.Helper()
	notes, err := filepath.Glob(filepath.Join(string(l.directory), "*.checkpoint"))
	if err != nil || len(notes) == 0 {
		l.t.Fatalf("%d notes, %v", len(notes), err)
	}
	for _, file := range notes {
		testdb.NoError(l.t, os.Remove(file))
	}
	l.restart()
}

// Exec runs SQL.
func (l *Ledger) Exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.Pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatal(err)
	}
}

// Tamper runs SQL with all triggers switched off, as a superuser can.
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

// Latest returns the checkpoint that is served: the newest one, unless an older one has a quorum.
func (l *Ledger) Latest() ledger.Checkpoint {
	l.t.Helper()
	c := testdb.Must(ledger.NewStore(l.Pool).Served(l.t.Context()))(l.t)
	return c
}

// appendSQL appends comments, each in its own stream. Every seventh event is instead one of a novel, all in one stream,
// without a personal part. $1: number of events.
const appendSQL = `WITH n AS (SELECT coalesce(max(stream_version), 0) AS before FROM events WHERE stream_id = md5('one novel')::uuid)
INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source,
    event_type, data, personal, salt, key_id, request_id, batch_id, fingerprint)
SELECT (SELECT coalesce(max(log_index) + 1, 0) FROM events) + i, kind, CASE kind WHEN 'post'
           THEN encode(substring(sha256(uuid_send(integration) || convert_to(key, 'UTF8')) FOR 16), 'hex')::uuid
           ELSE md5('one novel')::uuid END,
       CASE kind WHEN 'post' THEN 1 ELSE n.before + 1 + i / 7 END,
       key, integration, kind || 's', kind || '.imported.v1',
       json_build_object('chapterNumber', i, 'writtenAt', '2026-01-02T03:04:05Z', 'threadId', md5('t' || i)::uuid,
                         'novelId', md5('n' || i)::uuid, 'parentPostId', NULL),
       CASE kind WHEN 'post' THEN json_build_object('externalUuid', md5('u' || i), 'username', 'reader ' || i,
                                                    'content', repeat('some words of a comment ', 8)) END,
       CASE kind WHEN 'post' THEN gen_random_uuid() END,
       md5('k')::uuid, md5('r' || i), (SELECT gen_random_uuid()), md5('f' || i)::uuid
FROM n, generate_series(0, $1::integer - 1) AS i,
     LATERAL (SELECT CASE i % 7 WHEN 3 THEN 'novel' ELSE 'post' END, 'evt-' || gen_random_uuid(),
                     uuid '3f0e6f0a-6a5e-4a5e-9d0a-0a6a5e4a5e9d') AS k (kind, key, integration)`

// TryAppend appends n events in one transaction.
func TryAppend(ctx context.Context, pool *pgxpool.Pool, n int) error {
	var batch pgx.Batch
	eventlog.Lock(&batch)
	batch.Queue(appendSQL, n)
	return pool.SendBatch(ctx, &batch).Close()
}

// Append appends n events, seals and signs.
func (l *Ledger) Append(n int) {
	l.t.Helper()
	testdb.NoError(l.t, TryAppend(l.t.Context(), l.Pool, n))
	l.Sign()
}

// Sign seals and signs everything and returns the number of entries.
func (l *Ledger) Sign() int64 {
	l.t.Helper()
	size := l.Seal()
	testdb.NoError(l.t, l.signer.Sign(l.t.Context()))
	return size
}

// Seal seals everything and returns the number of entries.
func (l *Ledger) Seal() int64 {
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
		return status.UnsealedEvents == 0
	})
	return status.Size
}
