package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// at returns the condition for the event with a log index.
func at(index string) string { return ` log_index = ` + index + ` ` }

// move returns SQL that gives the events of a condition other log indexes.
func move(condition, to string) string {
	return `UPDATE events SET log_index = log_index + 1000000 WHERE ` + condition + `;
		UPDATE events SET log_index = ` + strings.ReplaceAll(to, "log_index", "(log_index - 1000000)") + ` WHERE log_index >= 1000000`
}

// TestTamperedEvents: manual changes of the log are found in the database, and in a later bundle.
func TestTamperedEvents(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	swap := func(a, b string) string { return move(`log_index IN (`+a+`, `+b+`)`, a+` + `+b+` - log_index`) }
	insert := func(index string) string {
		return `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal,
			salt, actor, batch_id, recorded_at) SELECT ` + index + `, stream_type, gen_random_uuid(), 2, 'forged', event_source, event_type,
			data, personal, salt, 'x', batch_id, recorded_at FROM events WHERE ` + at("4100")
	}
	l := ledgertest.New(t)
	l.Exec(`ALTER TABLE events DROP CONSTRAINT events_post_id_is_of_key, DROP CONSTRAINT events_digest_of_erased`)
	for _, n := range []int{4100, 300, 100} {
		l.Append(n)
	}
	tables := []string{"events", "ledger_tiles", "ledger_checkpoints", "ledger_cosignatures"}
	restore := `TRUNCATE ` + strings.Join(tables, ", ")
	for _, table := range tables {
		l.Exec(`CREATE TABLE sound_` + table + ` AS TABLE ` + table)
		restore += `; INSERT INTO ` + table + ` SELECT * FROM sound_` + table
	}
	cases := map[string]struct{ sql, want string }{
		"a byte of data": {
			`UPDATE events SET data = replace(data::text, 'threadId', 'thraadId')::json WHERE ` + at("4097"), "event@4097",
		},
		"white space in data": {`UPDATE events SET data = (data::text || ' ')::json WHERE ` + at("0"), "event@0"},
		"personal": {
			`UPDATE events SET personal = replace(personal::text, 'words', 'wurds')::json WHERE ` + at("511"), "event@511",
		},
		"salt alone":              {`UPDATE events SET salt = gen_random_uuid() WHERE ` + at("511"), "event@511"},
		"salt without personal":   {`UPDATE events SET salt = NULL WHERE ` + at("511"), "event@511"},
		"personal without salt":   {`UPDATE events SET personal = NULL WHERE ` + at("511"), "event@511"},
		"personal where none was": {`UPDATE events SET personal = '{}' WHERE ` + at("3"), "event@3"},
		"erased without a digest": {`UPDATE events SET personal = NULL, salt = NULL WHERE ` + at("511"), "event@511"},
		"erased with another digest": {
			`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, '{}') WHERE ` + at("511"), "event@511",
		},
		"other words beside the digest": {
			`UPDATE events SET personal = '{}', salt = NULL, personal_digest = personal_digest(salt, personal) WHERE ` + at("511"), "event@511",
		},
		"a digest where nothing was": {
			`UPDATE events SET personal_digest = personal_digest(NULL, '{}') WHERE ` + at("3"), "event@3",
		},
		"event and hash tile": {
			`UPDATE events SET data = '{}' WHERE ` + at("511") + `; UPDATE ledger_tiles SET hashes = set_byte(hashes, 32, 255 - get_byte(hashes, 32))
				WHERE (level, first_node) = (0, 512)`, "event@511 event@513 root",
		},
		"metadata": {`UPDATE events SET actor = 'x' WHERE ` + at("4499"), "event@4499"},
		"time": {
			`UPDATE events SET recorded_at = recorded_at + interval '1 microsecond' WHERE ` + at("12"), "event@12",
		},
		"type":                {`UPDATE events SET event_type = 'post.hidden.v1' WHERE ` + at("12"), "event@12"},
		"id":                  {`UPDATE events SET event_id = 'other' WHERE ` + at("12"), "event@12"},
		"version":             {`UPDATE events SET stream_version = 2 WHERE ` + at("12"), "event@12"},
		"deleted":             {`DELETE FROM events WHERE ` + at("4095"), "missing@4095"},
		"deleted at a border": {`DELETE FROM events WHERE ` + at("4096"), "missing@4096"},
		"an append deleted":   {`DELETE FROM events WHERE log_index BETWEEN 4100 AND 4399`, "missing@4100"},
		"the first one":       {`DELETE FROM events WHERE ` + at("0"), "missing@0"},
		"tail":                {`DELETE FROM events WHERE log_index >= 4100`, "truncated@4100"},
		"swapped":             {swap("17", "30"), "swapped@17 swapped@30"},
		"swapped far apart":   {swap("17", "4390"), "swapped@17 swapped@4390"},
		"moved": {
			move(`log_index BETWEEN 17 AND 19`, `17 + (log_index - 17 + 1) % 3`), "replaced@17 replaced@18 replaced@19",
		},
		// The events after it no longer have their places.
		"inserted": {
			move(`log_index >= 4498`, `log_index + 1`) + `; ` + insert("4498"), "event@4498 replaced@4499",
		},
		"deleted, and the gap closed": {
			`DELETE FROM events WHERE ` + at("4497") + `; ` + move(`log_index > 4497`, `log_index - 1`),
			"replaced@4497 event@4498 truncated@4499",
		},
		"in the place of another": {`DELETE FROM events WHERE ` + at("4101") + `; ` + insert("4101"), "event@4101"},
		"hash tile": {
			`UPDATE ledger_tiles SET hashes = set_byte(hashes, 32, 255 - get_byte(hashes, 32)) WHERE (level, first_node) = (0, 512)`, "tile@513",
		},
		"upper hash tile": {
			`UPDATE ledger_tiles SET hashes = set_byte(hashes, 0, 255 - get_byte(hashes, 0)) WHERE (level, first_node) = (1, 0)`,
			"tile@0",
		},
		"signed root": {
			`UPDATE ledger_checkpoints SET note = replace(note, encode(root_hash, 'base64'), encode(sha256('x'), 'base64'))`,
			"signature root",
		},
		"nothing": {`NULL`, ""},
	}
	for name, test := range cases {
		l.Tamper(test.sql)
		// For these faults, no single event is to blame.
		named := test.want != "" && !strings.HasPrefix(test.want, "missing") && !strings.HasPrefix(test.want, "truncated") &&
			name != "upper hash tile" && name != "signed root"
		for in, source := range sources(t, l) {
			wantFaults(t, name+" in the "+in, run(t, audit.Config{Source: source, Keys: l.Keys}), test.want, named)
		}
		l.Tamper(restore)
	}
}

// unreadable is a database with an event that cannot be read.
type unreadable struct {
	*audit.Database
	at int64
}

func (u unreadable) Events(ctx context.Context, first int64, count int, size int64) ([]audit.StoredEvent, error) {
	list, err := u.Database.Events(ctx, first, count, size)
	if i := u.at - first; i >= 0 && i < int64(len(list)) {
		list[i] = audit.StoredEvent{Broken: errors.New("cut off")}
	}
	return list, err
}

// TestUnreadableEvents: an event that cannot be read is one fault, also at the start of a hash tile. A source without
// entries misses none.
func TestUnreadableEvents(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(600)
	for _, at := range []int64{0, 255, 256, 599} {
		r := run(t, audit.Config{Source: unreadable{audit.NewDatabase(l.Pool), at}, Keys: l.Keys})
		wantFaults(t, "an unreadable event", r, fmt.Sprint("broken@", at), false)
	}
}

// forgetLedger is SQL that removes the ledger, so that the log is sealed again.
const forgetLedger = `; DELETE FROM ledger_checkpoints; DELETE FROM ledger_tiles; UPDATE ledger_state SET tree_size = 0, root_hash = sha256('')`

// TestStreamGap: entries show a gap in a stream only if the history was sealed again.
func TestStreamGap(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(155)
	l.Tamper(`UPDATE events SET stream_version = 90 WHERE stream_type = 'novel' AND stream_version = 22` + forgetLedger)
	l.Forget()
	l.Sign()
	r := run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys})
	wantFaults(t, "a gap", r, "stream@150", false)
}

// TestRewrittenHistory: with the operator's key a consistent history can be forged. It does not agree with kept
// checkpoints.
func TestRewrittenHistory(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	l := ledgertest.New(t)
	kept := map[string][]byte{}
	for _, n := range []int{1000, 3000, 500} {
		l.Append(n)
		c := l.Latest()
		kept[map[int]string{1000: "first", 3000: "second", 500: "third"}[n]] = c.Note
	}
	older := export(t, l, 0)
	l.Tamper(`UPDATE events SET data = '{}' WHERE ` + at("1234") + forgetLedger)
	l.Forget()
	if n := l.Sign(); n != 4500 {
		t.Fatalf("%d entries", n)
	}
	for name, source := range sources(t, l) {
		wantFaults(t, name, run(t, audit.Config{Source: source, Keys: l.Keys}), "", false)
		r := run(t, audit.Config{Source: source, Keys: l.Keys, Kept: kept})
		wantFaults(t, name, r, "rewritten@1000", false) // from there on: the first checkpoint agrees
		for i, want := range []bool{true, false, false} {
			if agrees := r.Kept[i].Agrees; agrees == nil || *agrees != want {
				t.Errorf("%s: %+v", name, r.Kept[i])
			}
		}
		r = run(t, audit.Config{
			Source: source, Keys: l.Keys, Kept: map[string][]byte{"third": kept["third"]}, Older: bundles(t, older),
		})
		wantFaults(t, name, r, "rewritten@1234", true)
	}
}

// TestCutHistory: log and ledger end before a kept checkpoint.
func TestCutHistory(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(1000)
	l.Append(500)
	c := l.Latest()
	l.Tamper(`DELETE FROM events WHERE log_index >= 1000;
		DELETE FROM ledger_checkpoints WHERE tree_size > 1000`)
	r := run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Kept: map[string][]byte{"kept": c.Note}})
	wantFaults(t, "cut", r, "truncated@1000", false)
}
