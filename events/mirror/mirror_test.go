package mirror_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/mirror"
	"novelgate/internal/testdb"
)

// TestMirrorStops: an event that does not belong is not applied, nor is any behind it; the mirror names the first one,
// and goes on when the origin delivers what was signed.
func TestMirrorStops(t *testing.T) {
	t.Parallel()
	another := ledgertest.New(t)
	another.Append(60)
	for name, test := range map[string]struct {
		at     int64
		change func(o *origin)
	}{
		"tampered data": {44, func(o *origin) {
			o.events = at(44, func(list []ledger.Event, i int) []ledger.Event { list[i].Data = []byte(`{}`); return list })
		}},
		"tampered data in a part of what is signed": {44, func(o *origin) {
			o.events = at(44, func(list []ledger.Event, i int) []ledger.Event { list[i].Data = []byte(`{}`); return list[:i+1] })
		}},
		"tampered text": {46, func(o *origin) {
			o.events = at(46, func(list []ledger.Event, i int) []ledger.Event {
				list[i].Personal = bytes.Replace(list[i].Personal, []byte("words"), []byte("Words"), 1)
				return list
			})
		}},
		"another actor": {40, func(o *origin) {
			o.events = at(40, func(list []ledger.Event, i int) []ledger.Event {
				list[i].Metadata.Actor = "staff:eve"
				return list
			})
		}},
		"another time": {41, func(o *origin) {
			o.events = at(41, func(list []ledger.Event, i int) []ledger.Event {
				list[i].RecordedAt = list[i].RecordedAt.Add(time.Microsecond)
				return list
			})
		}},
		"erased without a digest": {42, func(o *origin) {
			o.events = at(42, func(list []ledger.Event, i int) []ledger.Event {
				list[i].Personal, list[i].Salt.Valid = nil, false
				return list
			})
		}},
		"swapped": {47, func(o *origin) {
			o.events = at(47, func(list []ledger.Event, i int) []ledger.Event {
				list[i].Row, list[i+1].Row = list[i+1].Row, list[i].Row
				return list
			})
		}},
		"left out": {50, func(o *origin) {
			o.events = at(50, func(list []ledger.Event, i int) []ledger.Event { return append(list[:i:i], list[i+1:]...) })
		}},
		"twice": {51, func(o *origin) {
			o.events = at(50, func(list []ledger.Event, i int) []ledger.Event {
				return append(list[:i+1:i+1], list[i:]...)
			})
		}},
		"unreadable": {52, func(o *origin) {
			o.events = at(52, func(list []ledger.Event, i int) []ledger.Event {
				list[i].Broken = errors.New("cut off")
				return list
			})
		}},
		"cut off": {40, func(o *origin) {
			o.events = func([]ledger.Event, int64) []ledger.Event { return nil }
		}},
		"checkpoint of another key": {40, func(o *origin) {
			o.checkpoint = func([]byte) []byte { return another.Latest().Note }
		}},
		"forged size": {40, func(o *origin) {
			o.checkpoint = func(note []byte) []byte { return bytes.Replace(note, []byte("\n60\n"), []byte("\n61\n"), 1) }
		}},
		"no checkpoint": {40, func(o *origin) {
			o.checkpoint = func([]byte) []byte { return []byte("<html>") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &origin{ledger: ledgertest.New(t)}
			o.ledger.Append(40)
			r := follow(t, o, o.ledger.Keys)
			r.wantServed(t, 40)
			o.change(test.change)
			o.ledger.Append(20)
			r.wantStopped(t, test.at, 40)
			if c, err := ledger.NewStore(r.pool).Served(t.Context()); err != nil || c.Tree.N != 40 {
				t.Errorf("readers get a checkpoint over %d entries, %v", c.Tree.N, err)
			}
			o.change(func(o *origin) { o.checkpoint, o.events = nil, nil })
			r.wantServed(t, 60)
		})
	}
}

// at changes the events that are read together with that of a log index.
func at(
	index int64, change func(list []ledger.Event, i int) []ledger.Event,
) func(list []ledger.Event, first int64) []ledger.Event {
	return func(list []ledger.Event, first int64) []ledger.Event {
		if i := index - first; i >= 0 && i < int64(len(list)) {
			return change(list, int(i))
		}
		return list
	}
}

// TestMirrorWhileTheOriginIsAway: the mirror applies what the checkpoint that it has read covers, as far as events
// come, and does not call that verified. Started while the origin is away, it shows what the origin had.
func TestMirrorWhileTheOriginIsAway(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(40)
	o.events = func(list []ledger.Event, _ int64) []ledger.Event {
		o.away = errors.New("away") // as soon as events are read
		return list[:min(7, len(list))]
	}
	r := follow(t, o, o.ledger.Keys)
	r.wantServed(t, 40)
	if s := r.Status(); s.OriginEntries != 40 || !s.VerifiedAt.IsZero() {
		t.Errorf("the status is %+v", s)
	}
	o.ledger.Append(10)
	o.change(func(o *origin) { o.away, o.events = nil, nil })
	r.wantServed(t, 50)
	testdb.Eventually(t, "it is verified", func() bool { return !r.Status().VerifiedAt.IsZero() })
	r.stop()
	o.change(func(o *origin) { o.away = errors.New("away") })
	r = run(t, config(r.pool, o, o.ledger.Keys))
	testdb.Eventually(t, "it shows its events", func() bool { return r.Status().Entries == 50 })
	if s := r.Status(); s.OriginEntries != 50 {
		t.Errorf("the status is %+v", s)
	}
}

// TestMirrorOfAnOriginThatWasSetBack: the origin has lost events that were signed and mirrored, and goes on with other
// ones; it signs again once it has forgotten what was signed.
func TestMirrorOfAnOriginThatWasSetBack(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(300)
	backup := o.ledger.Backup()
	o.ledger.Append(200)
	r := follow(t, o, o.ledger.Keys)
	r.wantServed(t, 500)
	o.change(func(o *origin) { o.ledger = backup })
	r.wantStopped(t, 300, 500)
	backup.Forget()
	backup.Tamper(`DELETE FROM ledger_checkpoints`)
	backup.Append(100)
	backup.Append(350)
	testdb.Eventually(t, "it has seen the other history", func() bool {
		return strings.Contains(r.Status().Stopped, "another event than the one that was mirrored")
	})
	r.wantStopped(t, 300, 500)
}

// TestMirrorOfACachedCheckpoint: a cache still delivers a checkpoint over the events that the origin has
// lost. The mirror names the first of those that it has.
func TestMirrorOfACachedCheckpoint(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(300)
	backup := o.ledger.Backup()
	o.ledger.Append(200)
	r := follow(t, o, o.ledger.Keys)
	r.wantServed(t, 500)
	r.stop()
	o.ledger.Append(100)
	cached := o.ledger.Latest().Note
	o.change(func(o *origin) { o.ledger, o.checkpoint = backup, func([]byte) []byte { return cached } })
	r = run(t, config(r.pool, o, o.ledger.Keys))
	r.wantStopped(t, 300, 500)
	if s := r.Status(); !strings.Contains(s.Stopped, "the origin has lost the event") {
		t.Errorf("it has stopped: %s", s.Stopped)
	}
}

// TestMirrorFromADamagedBundle: a bundle that lacks a file says nothing about the origin.
func TestMirrorFromADamagedBundle(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(300)
	r := follow(t, o, o.ledger.Keys)
	r.wantServed(t, 300)
	r.stop()
	o.ledger.Append(300)
	x := audit.Export{DB: o.ledger.Pool, Dir: t.TempDir() + "/bundle", Now: time.Now}
	testdb.Must(x.Run(t.Context()))(t)
	c := config(r.pool, o, o.ledger.Keys)
	c.Bundles = testdb.Must(audit.OpenBundles([]string{x.Dir}))(t)
	if err := os.RemoveAll(x.Dir + "/events"); err != nil {
		t.Fatal(err)
	}
	r = run(t, c)
	r.wantStopped(t, 300, 300)
	if s := r.Status(); strings.Contains(s.Stopped, "lost") {
		t.Errorf("it has stopped: %s", s.Stopped)
	}
}

// TestMirrorOfAForkedOrigin: the key of the origin has signed another history, which shows only behind what was
// mirrored.
func TestMirrorOfAForkedOrigin(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(270)
	backup := o.ledger.Backup()
	o.ledger.Append(1)
	r := follow(t, o, o.ledger.Keys)
	r.wantServed(t, 271)
	backup.Forget()
	backup.Tamper(`DELETE FROM ledger_checkpoints`)
	backup.Append(600)
	o.change(func(o *origin) { o.ledger = backup })
	r.wantStopped(t, 270, 271)
}

// TestMirrorProvesItself: an event that was changed in the mirror's own database before it is sealed is found before
// a checkpoint over it is served.
func TestMirrorProvesItself(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(30)
	pool := begin(t)
	testdb.Exec(t, pool, `CREATE FUNCTION tampered() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF NEW.position = 17 THEN NEW.data = '{"chapterNumber":18}'; END IF; RETURN NEW; END $$`)
	testdb.Exec(t, pool, `CREATE TRIGGER tampered BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION tampered()`)
	r := run(t, config(pool, o, o.ledger.Keys))
	r.wantStopped(t, 17, 30)
	if _, err := ledger.NewStore(pool).Served(t.Context()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a checkpoint is served: %v", err)
	}
}

// TestMirrorFromBundles: the beginning comes from bundles, what follows from the origin, and one that does not match
// the key stops it.
func TestMirrorFromBundles(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	var paths []string
	for _, n := range []int{5000, 4000} {
		o.ledger.Append(n)
		x := audit.Export{DB: o.ledger.Pool, Dir: t.TempDir() + "/bundle", Now: time.Now}
		if len(paths) > 0 {
			x.From = 5000
		}
		testdb.Must(x.Run(t.Context()))(t)
		paths = append(paths, x.Dir)
	}
	o.ledger.Append(100)
	bundles := testdb.Must(audit.OpenBundles(paths))(t)
	read := int64(0)
	o.events = func(list []ledger.Event, first int64) []ledger.Event {
		if first < 9000 {
			read++
		}
		return list
	}
	c := config(begin(t), o, o.ledger.Keys)
	c.Bundles = bundles[:1]
	// The mirror has a part of a file already.
	early := run(t, c)
	testdb.Eventually(t, "the first bundle is mirrored", func() bool { return early.Status().Entries >= 4096 })
	early.stop()
	c.Bundles = bundles
	r := run(t, c)
	r.wantServed(t, 9100)
	c = config(begin(t), o, ledgertest.New(t).Keys)
	c.Bundles = bundles
	run(t, c).wantStopped(t, 0, 0)
}

// TestMirrorsOfOneDatabase: several processes mirror into one database, and each event is there once.
func TestMirrorsOfOneDatabase(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	c := config(begin(t), o, o.ledger.Keys)
	replicas := []*replica{run(t, c), run(t, c), run(t, c)}
	for range 5 {
		o.ledger.Append(300)
	}
	replicas[0].stop()
	o.ledger.Append(300)
	replicas[1].wantServed(t, 1800)
	replicas[2].wantServed(t, 1800)
	if gaps := testdb.Value[int](t, c.Pool, `SELECT count(*) FROM (SELECT tree_size FROM mirror WHERE tree_size <> 1800) AS m`); gaps > 0 {
		t.Error("the checkpoint of the mirror is elsewhere")
	}
}

// TestOnlyTheMirrorAppends: the database refuses every other append, and one that has a log does not become a mirror.
func TestOnlyTheMirrorAppends(t *testing.T) {
	t.Parallel()
	pool := begin(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source,
		event_type, data, batch_id) VALUES (0, 'novel', gen_random_uuid(), 1, 'x', 'staff', 'novel.barred.v1', '{}', gen_random_uuid())`)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "this database is a mirror") {
		t.Errorf("an append: %v", err)
	}
	if err := mirror.Begin(t.Context(), pool, "https://moved.example"); err != nil {
		t.Errorf("the origin has moved: %v", err)
	}
	if origin, err := mirror.Origin(t.Context(), pool); err != nil || origin != "https://moved.example" {
		t.Errorf("it mirrors %q, %v", origin, err)
	}
	own := ledgertest.New(t)
	if err := mirror.Begin(t.Context(), own.Pool, "https://origin.example"); !errors.Is(err, mirror.ErrInUse) {
		t.Errorf("a ledger of its own: %v", err)
	}
	if origin, err := mirror.Origin(t.Context(), own.Pool); err != nil || origin != "" {
		t.Errorf("it mirrors %q, %v", origin, err)
	}
	own.Append(1) // which is not refused
}

// stoppedAt20 returns a mirror that was ended after it had stopped, because the origin delivered 20 of its events.
func stoppedAt20(t *testing.T, o *origin) *replica {
	t.Helper()
	o.events = func(list []ledger.Event, first int64) []ledger.Event {
		if first >= 20 {
			return nil
		}
		return list[:20]
	}
	r := follow(t, o, o.ledger.Keys)
	testdb.Eventually(t, "the mirror has stopped", func() bool { return r.Status().StoppedAt != nil })
	r.stop()
	return r
}

// TestAnOlderCheckpointIsNotTheNewestSeen: after a restart, an older checkpoint of the origin does not replace the
// newest that the mirror has seen.
func TestAnOlderCheckpointIsNotTheNewestSeen(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(40)
	old := testdb.Must(o.source().Checkpoint(t.Context()))(t)
	o.ledger.Append(60)
	r := stoppedAt20(t, o)
	o.change(func(o *origin) { o.events, o.checkpoint = nil, func([]byte) []byte { return old } })
	r = run(t, config(r.pool, o, o.ledger.Keys))
	r.wantServed(t, 40)
	if s, err := mirror.ReadState(t.Context(), r.pool); err != nil || s.Seen.Tree.N != 100 {
		t.Errorf("it has seen %d entries, %v", s.Seen.Tree.N, err)
	}
}

// TestAnOriginUnderANewNameIsTheNewestSeen: the origin was restored with fewer events than the mirror has seen of it,
// and has a new name.
func TestAnOriginUnderANewNameIsTheNewestSeen(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(40)
	backup := o.ledger.Backup()
	o.ledger.Append(60)
	r := stoppedAt20(t, o)
	backup.SignAs("ledger.example/second")
	backup.Append(30)
	o.change(func(o *origin) { o.events, o.ledger = nil, backup })
	r = run(t, config(r.pool, o, backup.Keys))
	r.wantServed(t, 70)
	testdb.Eventually(t, "the mirror has seen the new name", func() bool {
		s := testdb.Must(mirror.ReadState(t.Context(), r.pool))(t)
		return s.Seen.Origin == "ledger.example/second" && s.Seen.Tree.N == 70
	})
}

// TestANewNameOfAnotherHistoryIsNotTheNewestSeen: the origin was restored with fewer events than the mirror has, and
// has a new name. The mirror stops, and still says what was signed under the name of its history.
func TestANewNameOfAnotherHistoryIsNotTheNewestSeen(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(40)
	backup := o.ledger.Backup()
	o.ledger.Append(40)
	r := follow(t, o, o.ledger.Keys)
	r.wantServed(t, 80)
	o.change(func(o *origin) { o.events = func([]ledger.Event, int64) []ledger.Event { return nil } })
	o.ledger.Append(20)
	r.wantStopped(t, 80, 80)
	r.stop()
	keys := slices.Clone(o.ledger.Keys)
	backup.SignAs("ledger.example/second")
	backup.Append(30)
	o.change(func(o *origin) { o.events, o.ledger = nil, backup })
	r = run(t, config(r.pool, o, append(keys, backup.Keys...)))
	r.wantStopped(t, 40, 80)
	s, err := mirror.ReadState(t.Context(), r.pool)
	if err != nil || s.Seen.Origin == "ledger.example/second" || s.Seen.Tree.N != 100 {
		t.Errorf("it has seen %+v, %v", s.Seen, err)
	}
}

// TestABundleVerifiesNothing: after a bundle, the mirror has not verified what the origin has signed.
func TestABundleVerifiesNothing(t *testing.T) {
	t.Parallel()
	o := &origin{ledger: ledgertest.New(t)}
	o.ledger.Append(300)
	x := audit.Export{DB: o.ledger.Pool, Dir: t.TempDir() + "/bundle", Now: time.Now}
	testdb.Must(x.Run(t.Context()))(t)
	o.away = errors.New("away")
	c := config(begin(t), o, o.ledger.Keys)
	c.Bundles = testdb.Must(audit.OpenBundles([]string{x.Dir}))(t)
	r := run(t, c)
	testdb.Eventually(t, "the bundle is applied", func() bool { return r.Status().Entries == 300 })
	if s := r.Status(); !s.VerifiedAt.IsZero() {
		t.Errorf("verified at %v", s.VerifiedAt)
	}
}
