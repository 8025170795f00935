package rebase_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/ledger/audit"
	"novelgate/events/rebase"
)

// placesSQL stores known positions in every table with positions: of the third, sixth and eighth of nine events.
const placesSQL = `CREATE SCHEMA authors_2; CREATE TABLE authors_2.authors (LIKE authors INCLUDING ALL);
CREATE TEMPORARY TABLE place AS SELECT transaction_id AS t, position AS p,
    row_number() OVER (ORDER BY transaction_id, position) AS n FROM events;
INSERT INTO projections (name, generation, transaction_id, position, state, updated_at) SELECT 'runs', 1, t, p,
    'running', now() FROM place WHERE n = 6;
INSERT INTO projections (name, generation, transaction_id, position, state, updated_at)
    VALUES ('new', 1, '0', 0, 'running', now());
INSERT INTO projections (name, generation, transaction_id, position, state, error, failed_transaction_id,
    failed_position, updated_at)
    SELECT 'fails', 1, a.t, a.p, 'failed', 'why', b.t, b.p, now() FROM place AS a, place AS b WHERE a.n = 3 AND b.n = 6;
INSERT INTO projection_rebuilds (name, build, generation, phase, structure, builder, transaction_id, position,
    target_transaction_id, target_position,
    events_done, events_total, started_at)
    SELECT 'authors', 2, 1, 'loading', '', gen_random_uuid(), '0', 0, t, p, 0, 9, now() FROM place WHERE n = 8;
INSERT INTO projection_rebuild_ranges SELECT 'authors', '0', 0, t, p, 3 FROM place WHERE n = 3;
INSERT INTO projection_rebuild_ranges SELECT 'authors', a.t, a.p, b.t, b.p, 3 FROM place AS a, place AS b WHERE a.n = 3
    AND b.n = 6;
INSERT INTO projection_rebuild_rest SELECT 'authors', t, p FROM place WHERE n IN (3, 8);
INSERT INTO activity_applied (transaction_id, position) SELECT t, p FROM place WHERE n = 6;
INSERT INTO authors SELECT gen_random_uuid(), gen_random_uuid(), '', '', now(), t, p, now() FROM place
    WHERE n IN (3, 6);
INSERT INTO authors_2.authors SELECT gen_random_uuid(), gen_random_uuid(), '', '', now(), t, p, now() FROM place
    WHERE n = 8;
DROP TABLE place`

// placesShownSQL lists these positions as the ordinals of their events in the log; 0 before the first.
const placesShownSQL = `SELECT what || ': ' || (SELECT count(*) FROM events AS e WHERE (e.transaction_id, e.position) <= (at.t, at.p)) FROM (
    SELECT name, transaction_id, position FROM projections
    UNION ALL SELECT name || ' at', failed_transaction_id, failed_position FROM projections WHERE state = 'failed'
    UNION ALL SELECT 'rebuild', transaction_id, position FROM projection_rebuilds
    UNION ALL SELECT 'target', target_transaction_id, target_position FROM projection_rebuilds
    UNION ALL SELECT 'from', from_transaction_id, from_position FROM projection_rebuild_ranges
    UNION ALL SELECT 'to', to_transaction_id, to_position FROM projection_rebuild_ranges
    UNION ALL SELECT 'rest', transaction_id, position FROM projection_rebuild_rest
    UNION ALL SELECT 'activity', transaction_id, position FROM activity_applied
    UNION ALL SELECT 'author', display_name_transaction_id, display_name_position FROM authors
    UNION ALL SELECT 'built author', display_name_transaction_id, display_name_position FROM authors_2.authors
) AS at (what, t, p) ORDER BY 1`

var wantPlaces = []string{
	"activity: 6", "author: 3", "author: 6", "built author: 8", "fails at: 6", "fails: 3", "from: 0", "from: 3", "new: 0",
	"rebuild: 0", "rest: 3",
	"rest: 8", "runs: 6", "target: 8", "to: 3", "to: 6",
}

const (
	orderSQL = `SELECT event_id || stream_id || data || coalesce(personal::text, '') || recorded_at FROM events ORDER BY transaction_id, position`
	// positionsSQL counts the events whose position is not Frozen and their log index.
	positionsSQL = `SELECT count(*) FROM (SELECT transaction_id, position, row_number() OVER (ORDER BY transaction_id, position) - 1 AS n FROM events) AS e
		LEFT JOIN ledger_seals AS s USING (transaction_id) WHERE transaction_id <> '2' OR position <> n OR first_log_index <> 0`
)

// TestRebase moves a log of several transactions and checkpoints, and continues with it.
func TestRebase(t *testing.T) {
	t.Parallel()
	l := newRestored(t)
	kept := map[string][]byte{}
	for _, n := range []int{2, 1, 5, 1} {
		l.append(n)
		kept[string(rune('a'+n))] = l.sign().Note
	}
	l.Tamper(placesSQL)
	l.shift(3)
	if l.isReadable() {
		t.Fatal("the log is readable as it is")
	}
	order, structure := l.texts(orderSQL), l.structure()

	report := l.mustRebase()
	want := &rebase.Report{
		Events: 9, Moved: 9, Sealed: 9, RootBefore: report.RootAfter,
		RootAfter: one[string](t, l.Pool, `SELECT encode(root_hash, 'base64') FROM ledger_state`),
	}
	report.Seconds = 0
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got)\n%s", diff)
	}
	if !l.isReadable() {
		t.Error("the log is not readable")
	}
	if diff := cmp.Diff(order, l.texts(orderSQL)); diff != "" {
		t.Errorf("events in their order (-before +after)\n%s", diff)
	}
	if n := l.count(positionsSQL); n != 0 {
		t.Errorf("%d events are out of place", n)
	}
	if diff := cmp.Diff(wantPlaces, l.texts(placesShownSQL)); diff != "" {
		t.Errorf("places (-want +got)\n%s", diff)
	}
	if at := one[string](t, l.Pool, `SELECT transaction_id || '/' || position FROM projections WHERE name = 'new'`); at != "0/0" {
		t.Errorf("what stood before the log is at %s", at)
	}
	if diff := cmp.Diff(structure, l.structure()); diff != "" {
		t.Errorf("structure (-before +after)\n%s", diff)
	}
	l.wantGuarded()
	l.wantGrowing(kept, 9)
}

// wantGuarded checks that log and ledger refuse every change.
func (l *restored) wantGuarded() {
	l.t.Helper()
	for _, sql := range []string{
		`UPDATE events SET position = position`, `DELETE FROM events`, `TRUNCATE events`,
		`UPDATE events SET data = '{}' WHERE false`,
		`UPDATE ledger_seals SET event_count = 1`, `DELETE FROM ledger_seals`, `TRUNCATE ledger_seals`,
		`UPDATE ledger_state SET position = 0`, `DELETE FROM ledger_state`,
		`SET session_replication_role = replica; DELETE FROM events`,
	} {
		conn, err := l.Pool.Acquire(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		if _, err := conn.Exec(l.t.Context(), `BEGIN; `+sql); err == nil {
			l.t.Errorf("%s is not refused", sql)
		}
		if _, err := conn.Exec(l.t.Context(), `ROLLBACK`); err != nil {
			l.t.Fatal(err)
		}
		conn.Release()
	}
}

// wantGrowing checks that the ledger continues after some events: with the next log index, and consistent with every
// earlier checkpoint.
func (l *restored) wantGrowing(kept map[string][]byte, events int) {
	l.t.Helper()
	l.append(2)
	l.append(1)
	if c := l.sign(); c.Tree.N != int64(events+3) {
		l.t.Errorf("%d entries", c.Tree.N)
	}
	if n := l.count(`SELECT count(*) FROM (SELECT first_log_index + position AS i, row_number() OVER (ORDER BY transaction_id, position) - 1 AS n
		FROM events LEFT JOIN ledger_seals USING (transaction_id)) AS e WHERE i IS DISTINCT FROM n`); n != 0 {
		l.t.Errorf("%d events have a wrong log index", n)
	}
	r, err := audit.Verify(l.t.Context(),
		audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys, Kept: kept, Now: time.Now})
	if err != nil {
		l.t.Fatal(err)
	}
	if !r.OK || r.Events != int64(events+3) {
		l.t.Errorf("%+v", r)
	}
	for _, k := range r.Kept {
		if k.Agrees == nil || !*k.Agrees {
			l.t.Errorf("checkpoint of %d entries does not agree", k.Size)
		}
	}
}

// TestUnsealed: the sealer continues with unsealed events, also if none was sealed before.
func TestUnsealed(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]int{"some": 4, "none": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRestored(t)
			kept := map[string][]byte{}
			if sealed > 0 {
				l.append(sealed)
				kept["before"] = l.sign().Note
			}
			l.append(3)
			l.append(2)
			l.shift(3)
			report := l.mustRebase()
			if report.Events != int64(sealed+5) || report.Moved != report.Events || report.Sealed != int64(sealed) ||
				(report.RootAfter == "") != (sealed == 0) {
				t.Errorf("%+v", report)
			}
			if n := l.count(positionsSQL); n != 0 {
				t.Errorf("%d events are out of place", n)
			}
			l.wantGrowing(kept, sealed+5)
		})
	}
}

// TestUnsigned: sealed but unsigned entries are verified, too.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	l := newRestored(t)
	l.append(4)
	l.sign()
	l.Tamper(`DELETE FROM ledger_checkpoints`)
	l.shift(3)
	if report := l.mustRebase(); report.RootAfter == "" {
		t.Errorf("%+v", report)
	}
}

// TestMovingTwice: moved events keep their positions.
func TestMovingTwice(t *testing.T) {
	t.Parallel()
	l := newRestored(t)
	l.append(4)
	l.append(1)
	kept := map[string][]byte{"first": l.sign().Note}
	l.shift(3)
	l.mustRebase()
	l.append(3)
	kept["second"] = l.sign().Note
	l.append(2)
	l.shift(3)
	order := l.texts(orderSQL)
	if report := l.mustRebase(); report.Events != 10 || report.Moved != 5 || report.Sealed != 8 {
		t.Errorf("%+v", report)
	}
	if diff := cmp.Diff(order, l.texts(orderSQL)); diff != "" {
		t.Errorf("events in their order (-before +after)\n%s", diff)
	}
	if n := l.count(positionsSQL); n != 0 {
		t.Errorf("%d events are out of place", n)
	}
	l.wantGrowing(kept, 10)
}

// TestOverlap: the new cluster has used some of the transaction ids of the old one.
func TestOverlap(t *testing.T) {
	t.Parallel()
	l := newRestored(t)
	for range 4 {
		l.append(2)
	}
	kept := map[string][]byte{"all": l.sign().Note}
	l.shift(one[uint64](t, l.Pool, `SELECT transaction_id FROM events ORDER BY transaction_id DESC, position LIMIT 1`))
	l.mustRebase()
	if n := l.count(positionsSQL); n != 0 {
		t.Errorf("%d events are out of place", n)
	}
	l.wantGrowing(kept, 8)
}
