package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// begin starts a command on the database of a service. args are its verb and flags.
func begin(t testing.TB, s *Service, args ...string) *process {
	t.Helper()
	return launch(t, slices.Concat(args, []string{"--database-url", s.DatabaseURL}, filesOf(s))...)
}

// vacuums takes the lock of a VACUUM.
const vacuums = `LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE`

// hold runs a statement that takes a lock, and holds the lock until release is called.
func hold(t testing.TB, databaseURL, statement string) (release func()) {
	t.Helper()
	connection := testdb.Connect(t, databaseURL)
	tx, err := connection.Begin(context.Background())
	if err == nil {
		_, err = tx.Exec(context.Background(), statement)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// fenced reports whether a database refuses appends because of a handover.
func fenced(t testing.TB, databaseURL string) bool {
	t.Helper()
	return value[bool](t, databaseURL, `SELECT EXISTS (SELECT FROM handover)`)
}

// awaitBlocked waits until a session of a command waits for a lock.
func awaitBlocked(t testing.TB, databaseURL string) {
	t.Helper()
	testdb.Eventually(t, "the command waits for a lock", func() bool {
		return value[bool](t, databaseURL, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
			AND datname = current_database() AND query ~ '^(LOCK|SET LOCAL|UPDATE handover|SELECT tree_size, edge)')`)
	})
}

// TestHandoverKilled kills `handover` and `promote` in each of their steps, and runs them again: the handover completes,
// or is undone, and no command is lost or carried out twice.
func TestHandoverKilled(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	// Servers of their own, because held locks delay the ledgers of all databases of a server.
	origin, mirror := startMirroredOn(t, startServer(t, nil).url(), startServer(t, nil).url())
	load := newLoad(t, newPartner(t, origin.DatabaseURL))
	load.pause = 5 * time.Millisecond
	load.aim(origin)
	load.start(4)
	load.book.await(50)
	file := filepath.Join(t.TempDir(), "handover")
	args := []string{"handover", file, "--to", mirror.URL, "--wait", "60s"}
	wantOpen := func() {
		t.Helper()
		if fenced(t, origin.DatabaseURL) {
			t.Fatal("the database is fenced")
		}
		load.book.await(20)
	}

	// Before the fence.
	release := hold(t, origin.DatabaseURL, `LOCK TABLE imports IN SHARE MODE`)
	p := begin(t, origin, args...)
	awaitBlocked(t, origin.DatabaseURL)
	p.kill()
	release()
	wantOpen()

	// Behind the fence, before everything is sealed. Undone without the file.
	// This lock and its waiters have no transaction id, so the handover does not wait for them before the fence.
	release = hold(t, origin.DatabaseURL, `LOCK TABLE ledger_state IN EXCLUSIVE MODE`)
	p = begin(t, origin, args...)
	testdb.Eventually(t, "the database is fenced", func() bool { return fenced(t, origin.DatabaseURL) })
	p.kill()
	release()
	origin.MustCLI(t, append([]string{"handover", "--undo"}, filesOf(origin)...)...)
	wantOpen()

	// Before the mirror has everything.
	release = hold(t, mirror.DatabaseURL, `SELECT FROM mirror FOR UPDATE`)
	p = begin(t, origin, args...)
	testdb.Eventually(t, "the database is fenced", func() bool { return fenced(t, origin.DatabaseURL) })
	p.kill()
	release()

	// Before the handover is complete.
	release = hold(t, origin.DatabaseURL, `SELECT FROM handover FOR UPDATE`)
	p = begin(t, origin, args...)
	awaitBlocked(t, origin.DatabaseURL)
	p.kill()
	release() // the statement that the command had sent may still be carried out

	// Complete, and the memory not retired yet.
	memory := filepath.Join(filesOf(origin)[1], "ledger.key.memory")
	if err := os.Mkdir(filepath.Join(memory, "handed-over"), 0o700); err != nil {
		t.Fatal(err)
	}
	origin.Refused(t, append(args, filesOf(origin)...)...)
	if given := value[bool](t, origin.DatabaseURL, `SELECT given_at IS NOT NULL FROM handover`); !given {
		t.Error("the handover is not complete")
	}
	undo := append([]string{"handover", "--undo"}, filesOf(origin)...)
	if out := origin.Refused(t, undo...); !strings.Contains(out.Stderr, "only the file") {
		t.Errorf("undone without the file: %s", out.Stderr)
	}
	if err := os.Remove(filepath.Join(memory, "handed-over")); err != nil {
		t.Fatal(err)
	}

	// The memory retired, and the file not written: the same file or another one gets the token. Undone with it, and done
	// again.
	release = hold(t, origin.DatabaseURL, `LOCK TABLE webhooks IN ACCESS EXCLUSIVE MODE`)
	p = begin(t, origin, args...)
	testdb.Eventually(t, "the memory is retired", func() bool {
		_, err := os.Stat(filepath.Join(memory, "id"))
		return os.IsNotExist(err)
	})
	p.kill()
	release()
	if text, err := os.ReadFile(file); err != nil || len(bytes.TrimSpace(text)) > 0 {
		t.Errorf("the file has %q, %v", text, err)
	}
	origin.MustCLI(t, append(args, filesOf(origin)...)...)
	another := filepath.Join(t.TempDir(), "another")
	origin.MustCLI(t, append([]string{"handover", another, "--to", mirror.URL}, filesOf(origin)...)...)
	if err := os.Remove(file); err != nil {
		t.Error(err)
	}
	origin.MustCLI(t, append([]string{"handover", "--undo", another}, filesOf(origin)...)...)
	wantOpen()
	awaitSigned(t, origin)

	// At any moment.
	for range 4 {
		p = begin(t, origin, args...)
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond)
		p.kill()
	}
	origin.MustCLI(t, append(args, filesOf(origin)...)...)

	// The promotion: before its transaction, at any moment, and after it with a file that is still there.
	release = hold(t, mirror.DatabaseURL, `SELECT FROM mirror FOR UPDATE`)
	p = begin(t, mirror, "promote", file)
	awaitBlocked(t, mirror.DatabaseURL)
	p.kill()
	release()
	if promoted := originsOf(t, mirror).Promotions; len(promoted) > 0 {
		t.Error("the mirror is promoted")
	}
	kept := copyOf(t, file)
	for range 4 {
		p = begin(t, mirror, "promote", file)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		p.kill()
	}
	if err := os.WriteFile(file, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mirror.promote(t, file)
		if err := os.WriteFile(file, kept, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// With a copy of the file, the origin can tell that the mirror was promoted.
	for _, args := range [][]string{args, {"handover", "--undo", file}} {
		if out := origin.Refused(t, append(args, filesOf(origin)...)...); !strings.Contains(out.Stderr, "promoted") {
			t.Errorf("novelgate %v after the promotion: %s", args, out.Stderr)
		}
	}
	load.aim(mirror)
	load.book.await(50)
	load.settle(t, mirror, mirror.DatabaseURL)
	awaitSealed(t, mirror.DatabaseURL)
	mirror.MustCLI(t, "events", "verify")
}

// fileFor returns a copy of the file of a handover, changed to be for another mirror.
func fileFor(t testing.TB, file string, mirror *Service) string {
	t.Helper()
	var token map[string]json.RawMessage
	err := json.Unmarshal(copyOf(t, file), &token)
	if err == nil {
		token["log"], err = json.Marshal(value[string](t, mirror.DatabaseURL, `SELECT id::text FROM log_identity`))
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(token)
	}
	changed := filepath.Join(t.TempDir(), "changed")
	if err == nil {
		err = os.WriteFile(changed, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// copyOf returns the content of a file.
func copyOf(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// awaitSigned waits until the ledger of a service covers the events that are there now.
func awaitSigned(t testing.TB, s *Service) {
	t.Helper()
	events := value[int64](t, s.DatabaseURL, `SELECT count(*) FROM events`)
	testdb.Eventually(t, "the ledger is signed", func() bool {
		return value[int64](t, s.DatabaseURL, `SELECT coalesce(max(tree_size), 0) FROM ledger_checkpoints`) >= events
	})
}

// TestHandoverRefused: what would lose something is refused with the reason, and changes nothing.
func TestHandoverRefused(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	// Servers of their own, because held locks delay the ledgers of all databases of a server.
	origin, mirror := startMirroredOn(t, startServer(t, nil).url(), startServer(t, nil).url())
	other := Start(t, testdb.New(t))
	p := newPartner(t, origin.DatabaseURL).at(origin)
	imports := origin.NewPartner(t, Fields{"capabilities": []string{"import", "posts", "novels"}})
	title := Unique("Refused")
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	other.NewPartner(t)
	awaitSealed(t, other.DatabaseURL)
	wantMirrored(t, origin.URL, origin.DatabaseURL, mirror.URL, mirror.DatabaseURL)
	refused := func(s *Service, why string, args ...string) {
		t.Helper()
		if out := s.Refused(t, append(args, filesOf(s)...)...); !strings.Contains(out.Stderr, why) {
			t.Errorf("novelgate %v says %q, want %q", args, out.Stderr, why)
		}
	}
	file := filepath.Join(t.TempDir(), "handover")

	refused(origin, "not a mirror of this service", "handover", file, "--to", other.URL)
	refused(origin, "does not answer as a mirror: it answers a command with", "handover", file, "--to", origin.URL)
	refused(origin, "read the ledger of the mirror", "handover", file, "--to", "http://127.0.0.1:1")
	refused(mirror, "is a mirror of", "handover", file, "--to", origin.URL)
	refused(mirror, "is a mirror of", "ledger", "new-key")
	if out := mirror.Refused(t, "integration", "create", "x", "--sandbox"); !strings.Contains(out.Stderr, "a mirror of") {
		t.Errorf("a sandbox: %s", out.Stderr)
	}
	refused(origin, "create the file of the handover", "handover", filepath.Join(file, "none"), "--to", mirror.URL)
	refused(origin, "create the file of the handover", "handover", t.TempDir(), "--to", mirror.URL)
	if fenced(t, origin.DatabaseURL) {
		t.Error("commands are refused without a place for the file")
	}
	keyless := append([]string{"handover", file, "--to", mirror.URL}, filesOf(other)...)
	if out := origin.Refused(t, keyless...); !strings.Contains(out.Stderr, "run this where the key and the memory") {
		t.Errorf("without the key: %s", out.Stderr)
	}
	refused(origin, "has not handed over", "handover", "--undo")
	refused(origin, "this database is not a mirror", "promote", "--lost-origin")
	key := Key()
	opened := origin.Send(t, Request{
		Method: http.MethodPost, Path: "/api/integrations/imports", Bearer: imports.APIKey, Key: key,
	})
	refused(origin, "1 bulk imports have not ended", "handover", file, "--to", mirror.URL)
	if opened.Status != http.StatusCreated {
		t.Errorf("an import: %d %s", opened.Status, opened.Body)
	}
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)

	// The mirror does not follow: the fence is lifted after a while.
	behind := startMirror(t, origin)
	wantMirrored(t, origin.URL, origin.DatabaseURL, behind.URL, behind.DatabaseURL)
	behind.Stop(t)
	release := hold(t, mirror.DatabaseURL, `SELECT FROM mirror FOR UPDATE`)
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	refused(origin, "events after 1s", "handover", file, "--to", mirror.URL, "--wait", "1s", "--leave-imports")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a file is left behind: %v", err)
	}
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	// Meanwhile no other command acts; once it was killed, the fence can be lifted.
	patient := begin(t, origin, "handover", file, "--to", mirror.URL, "--wait", "60s", "--leave-imports")
	testdb.Eventually(t, "the database is fenced", func() bool { return fenced(t, origin.DatabaseURL) })
	refused(origin, "another `novelgate handover` or a `novelgate promote` is running", "handover", file, "--to", mirror.URL)
	refused(origin, "another `novelgate handover` or a `novelgate promote` is running", "handover", "--undo")
	patient.kill()
	origin.MustCLI(t, append([]string{"handover", "--undo"}, filesOf(origin)...)...)
	release()
	p.Import(t, Key(), Comment(title)).WantPost(t, 201)

	// Another file, another history, a mirror that is behind.
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(mirror, "not a file of `novelgate handover`", "promote", text)
	refused(origin, "not a file of `novelgate handover`", "handover", text, "--to", mirror.URL, "--leave-imports")
	origin.MustCLI(t, append([]string{"handover", file, "--to", mirror.URL, "--leave-imports"}, filesOf(origin)...)...)
	earlier, kept := filepath.Join(t.TempDir(), "earlier"), copyOf(t, file)
	if err := os.WriteFile(earlier, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if originsOf(t, origin).Handover == nil {
		t.Error("/ledger/origins has no handover")
	}
	origin.MustCLI(t, append([]string{"handover", "--undo", file}, filesOf(origin)...)...)
	refused(mirror, "the handover was undone", "promote", earlier)
	refused(origin, "the file of another handover", "handover", earlier, "--to", mirror.URL, "--leave-imports")
	if fenced(t, origin.DatabaseURL) || !bytes.Equal(copyOf(t, earlier), kept) {
		t.Error("another handover replaces the file of the first")
	}
	origin.MustCLI(t, append([]string{"handover", file, "--to", mirror.URL, "--leave-imports"}, filesOf(origin)...)...)
	refused(behind, "the file is for the mirror that answered at "+mirror.URL, "promote", file)
	refused(behind, "It must run until it has all", "promote", fileFor(t, file, behind), "--wait", "100ms")
	for range 30 { // more events than those that were handed over
		other.NewPartner(t)
	}
	stranger := startMirror(t, other)
	wantMirrored(t, other.URL, other.DatabaseURL, stranger.URL, stranger.DatabaseURL)
	refused(stranger, "no signature of a key that the mirror knows", "promote", fileFor(t, file, stranger))
	used, err := os.Open(file)
	if err == nil {
		err = syscall.Flock(int(used.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused(mirror, "another command uses the file", "promote", file)
	refused(origin, "another command uses the file", "handover", "--undo", file)
	if err := used.Close(); err != nil {
		t.Error(err)
	}
	if got := originsOf(t, stranger); len(got.Promotions) > 0 {
		t.Errorf("a mirror of another history is promoted: %+v", got)
	}
	release = hold(t, mirror.DatabaseURL, vacuums)
	refused(mirror, "has locked the log", "promote", file, "--wait", "1s")
	release()
	// Personal data that was withheld from the mirror looks erased.
	execute(t, mirror.DatabaseURL, `ALTER TABLE events DISABLE TRIGGER USER;
		UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal)
		WHERE ctid = (SELECT min(ctid) FROM events WHERE event_type = 'post.imported.v1')`)
	refused(mirror, "the mirror lacks the personal data of 1 events", "promote", file)
	if promoted := originsOf(t, mirror).Promotions; len(promoted) > 0 {
		t.Error("the mirror is promoted")
	}
	// An import that was open is refused, too.
	lines := origin.Send(t, Request{
		Method: http.MethodPost, Path: "/api/integrations/imports", Bearer: imports.APIKey, Key: Key(),
	})
	wantHandedOver(t, lines, mirror.URL)
	refused(origin, "has been replaced by "+mirror.URL, "ledger", "new-key")
	if out := origin.Refused(t, "integration", "create", "x", "--sandbox"); !strings.Contains(out.Stderr, "replaced by") {
		t.Errorf("a sandbox: %s", out.Stderr)
	}
}
