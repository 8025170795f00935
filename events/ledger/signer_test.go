package ledger_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	formats "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

const testOrigin = "ledger.example/test"

// newSigner returns a signer with an identity; fields that the config leaves out get test values.
func newSigner(t testing.TB, pool *pgxpool.Pool, config ledger.IdentityConfig) *ledger.Signer {
	t.Helper()
	if config.Origin == "" {
		config.Origin = testOrigin
	}
	if config.Directory == "" {
		config.Directory = newDirectory(t)
	}
	id := testdb.Must(ledger.Identify(t.Context(), pool, config))(t)
	return testdb.Must(ledger.NewSigner(ledger.SignerConfig{
		Pool: pool, Identity: id, Logger: slog.New(slog.DiscardHandler),
	}))(t)
}

// openNote verifies a checkpoint with the standard library of notes, and returns its tree.
func openNote(t testing.TB, signed []byte, keys ...string) tlog.Tree {
	t.Helper()
	var verifiers []note.Verifier
	for _, key := range keys {
		verifier := testdb.Must(note.NewVerifier(key))(t)
		verifiers = append(verifiers, verifier)
	}
	n, err := note.Open(signed, note.VerifierList(verifiers...))
	if err != nil || len(n.Sigs) != len(keys) || len(n.UnverifiedSigs) != 0 {
		t.Fatalf("open checkpoint: %v\n%s", err, signed)
	}
	var body formats.Checkpoint
	rest, err := body.Unmarshal([]byte(n.Text))
	if err != nil || len(rest) > 0 || body.Origin != verifiers[0].Name() {
		t.Fatalf("parse checkpoint: %v, %q", err, n.Text)
	}
	return tlog.Tree{N: int64(body.Size), Hash: tlog.Hash(body.Hash)}
}

// wantProof verifies a proof with only the key and the leaf.
func wantProof(t testing.TB, text []byte, index int64, leaf tlog.Hash, keys []string) {
	t.Helper()
	var p proof.TLogProof
	testdb.NoError(t, p.Unmarshal(text))
	tree := openNote(t, p.Checkpoint, keys...)
	var hashes tlog.RecordProof
	for _, hash := range p.Hashes {
		hashes = append(hashes, hash)
	}
	if p.Index != uint64(index) {
		t.Fatalf("the proof is about %d, want %d", p.Index, index)
	}
	if err := tlog.CheckRecord(hashes, tree.N, tree.Hash, index, leaf); err != nil {
		t.Fatalf("entry %d: %v", index, err)
	}
	proven, err := ledger.CheckProof(text, keys)
	if err != nil || proven.LogIndex != index || proven.Entry.ID == "" || proven.Checkpoint.Tree != tree {
		t.Fatalf("check the proof of %d: %+v, %v", index, proven, err)
	}
	foreign := []string{"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"}
	wrong := p
	wrong.ExtraData = append(slices.Clone(p.ExtraData[:len(p.ExtraData)-1]), p.ExtraData[len(p.ExtraData)-1]^1)
	moved := p
	moved.Index++
	for name, err := range map[string]error{
		"another key":   second(ledger.CheckProof(text, foreign)),
		"no key":        second(ledger.CheckProof(text, nil)),
		"another entry": second(ledger.CheckProof(wrong.Marshal(), keys)),
		"another index": second(ledger.CheckProof(moved.Marshal(), keys)),
		"no proof":      second(ledger.CheckProof([]byte("nothing"), keys)),
	} {
		if !errors.Is(err, ledger.ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func sign(t testing.TB, signer *ledger.Signer) {
	t.Helper()
	testdb.NoError(t, signer.Sign(t.Context()))
}

func latest(t testing.TB, pool *pgxpool.Pool) ledger.Checkpoint {
	t.Helper()
	return testdb.Must(ledger.NewStore(pool).Served(t.Context()))(t)
}

func TestCheckpointsFollowTheTree(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	store := ledger.NewStore(pool)
	if _, err := store.Served(t.Context()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("before anything was signed: %v", err)
	}
	signer := newSigner(t, pool, ledger.IdentityConfig{})
	sign(t, signer)
	if tree := openNote(t, latest(t, pool).Note, signer.Keys()...); tree.N != 0 || tree.Hash != ledger.NaiveRoot(nil) {
		t.Errorf("checkpoint of the empty tree: %+v", tree)
	}
	startSealer(t, ledger.SealerConfig{Pool: pool})
	for _, n := range []int{1, 5, 600} {
		appendEvents(t, pool, n)
		awaitSealed(t, pool)
		sign(t, signer)
		sign(t, signer) // no new entries
	}
	leaves := wantSound(t, pool)
	tree := openNote(t, latest(t, pool).Note, signer.Keys()...)
	if tree.N != 606 || tree.Hash != ledger.NaiveRoot(leaves) {
		t.Errorf("newest checkpoint: %+v", tree)
	}
	for _, n := range []int64{0, 1, 5, 6, 255, 256, 605} {
		p := testdb.Must(store.Proof(t.Context(), n))(t)
		wantProof(t, p, n, leaves[n], signer.Keys())
	}
	appendEvents(t, pool, 1)
	awaitSealed(t, pool)
	for _, n := range []int64{-1, 606, 1 << 62} {
		if _, err := store.Proof(t.Context(), n); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("proof of %d: %v", n, err)
		}
	}
	wantChain(t, pool, 0, 1, 6, 606)
}

// chain returns the sizes of all checkpoints in order, and checks that each follows the previous one.
func chain(t testing.TB, pool *pgxpool.Pool) []int64 {
	t.Helper()
	rows := testdb.Must(pool.Query(t.Context(),
		`SELECT tree_size, coalesce(previous_size, -1) FROM ledger_checkpoints ORDER BY tree_size`))(t)
	var sizes []int64
	var size, previous int64
	last := int64(-1)
	if _, err := pgx.ForEachRow(rows, []any{&size, &previous}, func() error {
		if previous != last {
			t.Errorf("%d follows %d, want %d", size, previous, last)
		}
		last = size
		sizes = append(sizes, size)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return sizes
}

func wantChain(t testing.TB, pool *pgxpool.Pool, want ...int64) {
	t.Helper()
	if diff := cmp.Diff(want, chain(t, pool)); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
}

// TestCheckpointsNeverGoBack: the database refuses a checkpoint that is smaller, forks the chain or is stored again.
func TestCheckpointsNeverGoBack(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	signer := newSigner(t, pool, ledger.IdentityConfig{})
	startSealer(t, ledger.SealerConfig{Pool: pool})
	for range 2 {
		sign(t, signer)
		appendEvents(t, pool, 10)
		awaitSealed(t, pool)
	}
	sign(t, signer) // 0, 10, 20
	for name, c := range map[string]struct {
		size, previous any
		constraint     string
	}{
		"another root at a size":  {20, 10, "pkey"},
		"smaller":                 {15, 20, "grow"},
		"behind itself":           {30, 30, "grow"},
		"a branch":                {30, 10, "chain"},
		"in between":              {15, 10, "chain"},
		"another first":           {30, nil, "chain"},
		"behind one that is none": {30, 25, "previous"},
	} {
		_, err := pool.Exec(t.Context(),
			`INSERT INTO ledger_checkpoints (origin, tree_size, previous_size, root_hash, note, signed_at)
			VALUES ($1, $2, $3, sha256('x'), 'n', now())`,
			testOrigin, c.size, c.previous)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.ConstraintName != "ledger_checkpoints_"+c.constraint {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantChain(t, pool, 0, 10, 20)
}

// setBack restores the database to an earlier state, as a failover to a lagging standby does.
func setBack(t testing.TB, db database.Execer, size int) {
	t.Helper()
	testdb.Exec(t, db, `SET session_replication_role = replica;
		ALTER TABLE ledger_checkpoints DISABLE TRIGGER USER; ALTER TABLE ledger_state DISABLE TRIGGER USER; ALTER TABLE
		    ledger_tiles DISABLE TRIGGER USER;
		ALTER TABLE events DISABLE TRIGGER USER;
		DELETE FROM ledger_checkpoints; DELETE FROM ledger_tiles;
		UPDATE ledger_state SET tree_size = 0, root_hash = sha256('');
		DELETE FROM events WHERE log_index >= `+strconv.Itoa(size)+`;
		ALTER TABLE ledger_state ENABLE ALWAYS TRIGGER ledger_state_only_grows;
		SET session_replication_role = origin`)
}

// TestSetBackWhileSigning: no checkpoint covers more than the sealed entries.
func TestSetBackWhileSigning(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	signer := newSigner(t, pool, ledger.IdentityConfig{})
	stop := startSealer(t, ledger.SealerConfig{Pool: pool})
	appendEvents(t, pool, 30)
	awaitSealed(t, pool)
	stop()
	if err := signBeside(t, pool, signer, func(tx pgx.Tx) { setBack(t, tx, 5) }); err == nil {
		t.Error("no error")
	}
	wantChain(t, pool)
}

// TestKeyIsMadeOnce: only the owner can read its file, and a readable one is detected.
func TestKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	config := ledger.IdentityConfig{
		OriginPrefix: testOrigin, Directory: ledger.Directory(filepath.Join(t.TempDir(), "new", "signer")),
	}
	log := testdb.Value[string](t, pool, `SELECT value FROM settings WHERE name = 'log_id'`)
	origin := testOrigin + "/" + log[:8]
	first, err := ledger.Identify(t.Context(), pool, config)
	if err != nil || !first.Started || first.Origin != origin || len(first.VerifierKeys) != 1 ||
		!strings.HasPrefix(first.VerifierKeys[0], origin+"+") {
		t.Fatalf("first start: %+v, %v", first, err)
	}
	config.OriginPrefix = "another.example/address" // the listening address has changed
	second, err := ledger.Identify(t.Context(), pool, config)
	if err != nil || second.Started || second.Origin != origin {
		t.Fatalf("second start: %+v, %v", second, err)
	}
	if diff := cmp.Diff(first.VerifierKeys, second.VerifierKeys); diff != "" {
		t.Errorf("keys (-first +second):\n%s", diff)
	}
	if config.Directory.KeysAreExposed() {
		t.Error("others can read a new file")
	}
	testdb.NoError(t, os.Chmod(config.Directory.KeyFile(), 0o640))
	if !config.Directory.KeysAreExposed() {
		t.Error("nobody notices that the group can read the file")
	}
}

// TestReplicasStartTogether: of replicas that start on an empty database, each with its own directory, one creates the
// key.
func TestReplicasStartTogether(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	able := 0
	for range 4 {
		directory := newDirectory(t)
		wg.Go(func() {
			id, err := ledger.Identify(t.Context(), pool, ledger.IdentityConfig{OriginPrefix: testOrigin, Directory: directory})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			able += len(id.VerifierKeys)
		})
	}
	wg.Wait()
	if able != 1 || count(t, pool, "ledger_keys") != 1 || count(t, pool, "ledger_origins") != 1 {
		t.Errorf("%d replicas sign", able)
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	store := ledger.NewStore(pool)
	directory := newDirectory(t)
	startSealer(t, ledger.SealerConfig{Pool: pool})
	step := func(want ...string) {
		t.Helper()
		appendEvents(t, pool, 1)
		awaitSealed(t, pool)
		signer := newSigner(t, pool, ledger.IdentityConfig{Directory: directory})
		sign(t, signer)
		c := latest(t, pool)
		for _, key := range want {
			verifier := testdb.Must(note.NewVerifier(key))(t)
			if _, err := note.Open(c.Note, note.VerifierList(verifier)); err != nil {
				t.Errorf("with key %s: %v", key, err)
			}
		}
		keys := testdb.Must(store.SignersOf(t.Context(), c))(t)
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	}
	before := newSigner(t, pool, ledger.IdentityConfig{Directory: directory}).Keys()[0]
	step(before)
	after := testdb.Must(directory.AddKey(testOrigin))(t)
	step(before, after)
	text := testdb.Must(os.ReadFile(directory.KeyFile()))(t)
	lines := strings.SplitAfter(string(text), "\n") // the first key, the second one
	lines[0] = "# the first one has retired\n\n"
	testdb.NoError(t, os.WriteFile(directory.KeyFile(), []byte(strings.Join(lines, "")), 0o600))
	step(after)
}

func TestIdentifyRefuses(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	withKeys := func(text string) ledger.Directory {
		d := ledger.Directory(t.TempDir())
		testdb.NoError(t, os.WriteFile(d.KeyFile(), []byte(text), 0o600))
		return d
	}
	secret := "PRIVATE+KEY+x+00000000+c2VjcmV0"
	for name, c := range map[string]struct {
		config ledger.IdentityConfig
		want   error
	}{
		"a file that is no key": {
			ledger.IdentityConfig{OriginPrefix: testOrigin, Directory: withKeys(secret + "\n")}, ledger.ErrKeyFile,
		},
		"a file without a key": {
			ledger.IdentityConfig{OriginPrefix: testOrigin, Directory: withKeys("# nothing\n")}, ledger.ErrKeyFile,
		},
		"an origin with space": {ledger.IdentityConfig{Origin: "a b", OriginPrefix: testOrigin}, ledger.ErrOrigin},
		"an origin with plus":  {ledger.IdentityConfig{OriginPrefix: "a+b"}, ledger.ErrOrigin},
		"no origin":            {ledger.IdentityConfig{}, ledger.ErrOrigin},
	} {
		if c.config.Directory == "" {
			c.config.Directory = newDirectory(t)
		}
		_, err := ledger.Identify(t.Context(), pool, c.config)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: the error tells the key: %v", name, err)
		}
	}
	if n := count(t, pool, "ledger_origins"); n != 0 {
		t.Errorf("%d origins were started", n)
	}
}
