package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// at returns the condition for the event with a log index.
func at(index string) string {
	return ` (transaction_id, position) = (SELECT s.transaction_id, ` + index + ` - s.first_log_index FROM ledger_seals AS s
		WHERE ` + index + ` BETWEEN s.first_log_index AND s.first_log_index + s.event_count - 1) `
}

// TestTamperedEvents: manual changes of the log are found in the database, and in a later bundle.
func TestTamperedEvents(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	swap := func(a, b string) string {
		return `UPDATE events SET position = position + 1000000 WHERE ` + at(a) + `;
			UPDATE events SET (transaction_id, position) = (SELECT s.transaction_id, ` + a + ` - s.first_log_index FROM ledger_seals AS s
				WHERE ` + a + ` BETWEEN s.first_log_index AND s.first_log_index + s.event_count - 1) WHERE ` + at(b) + `;
			UPDATE events SET (transaction_id, position) = (SELECT s.transaction_id, ` + b + ` - s.first_log_index FROM ledger_seals AS s
				WHERE ` + b + ` BETWEEN s.first_log_index AND s.first_log_index + s.event_count - 1) WHERE position >= 1000000`
	}
	insert := func(position string) string {
		return `INSERT INTO events (transaction_id, position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal,
			salt, actor, batch_id, recorded_at) SELECT transaction_id, ` + position + `, stream_type, gen_random_uuid(), 2, 'forged', event_source, event_type,
			data, personal, salt, 'x', batch_id, recorded_at FROM events WHERE ` + at("4100")
	}
	l := ledgertest.New(t)
	l.Exec(`ALTER TABLE events DROP CONSTRAINT events_post_id_is_of_key, DROP CONSTRAINT events_digest_of_erased`)
	for _, n := range []int{4100, 300, 100} {
		l.Append(n)
	}
	tables := []string{"events", "ledger_seals", "ledger_tiles", "ledger_checkpoints", "ledger_cosignatures"}
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
		"a transaction deleted": {
			`DELETE FROM events WHERE transaction_id = (SELECT transaction_id FROM ledger_seals WHERE first_log_index = 4100)`,
			"missing@4100",
		},
		"tail": {
			`DELETE FROM events WHERE transaction_id >= (SELECT transaction_id FROM ledger_seals WHERE first_log_index = 4100)`,
			"truncated@4100",
		},
		"swapped":           {swap("17", "30"), "swapped@17 swapped@30"},
		"swapped far apart": {swap("17", "4390"), "swapped@17 swapped@4390"},
		"inserted": {
			insert("(SELECT event_count FROM ledger_seals WHERE first_log_index = 4100)"), "extra@4400",
		},
		"in the place of another": {`DELETE FROM events WHERE ` + at("4101") + `; ` + insert("1"), "event@4101"},
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
		wantFaults(t, name+" in the database", run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys}),
			test.want, named)
		wantFaults(t, name+" in a bundle", run(t, audit.Config{Source: bundles(t, export(t, l, 0)), Keys: l.Keys}),
			test.want, named)
		l.Tamper(restore)
	}
}

// unreadable is a database with an event that cannot be read.
type unreadable struct {
	*audit.Database
	at int64
}

func (u unreadable) Events(ctx context.Context, first int64, count int, size int64) ([]ledger.Event, error) {
	list, err := u.Database.Events(ctx, first, count, size)
	if i := u.at - first; i >= 0 && i < int64(len(list)) {
		list[i] = ledger.Event{LogIndex: ledger.NoLogIndex, Broken: errors.New("cut off")}
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

// TestDamagedSeals: without a seal, events have no log index. The fault is the seal, not an entry or a hash tile. The
// report names the events that were not compared, and everything else is checked.
func TestDamagedSeals(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	for _, n := range []int{150, 5} {
		l.Append(n)
	}
	l.Tamper(`DELETE FROM ledger_seals WHERE first_log_index = 150`)
	r := run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys})
	wantFaults(t, "the last seal", r, "seal@150", false)
	if !strings.Contains(r.Faults[0].Detail, "no transaction has log index 150") ||
		!strings.Contains(r.Faults[0].Detail, "events 0 to 154 were not compared") {
		t.Errorf("it says: %s", r.Faults[0].Detail)
	}
	if r.Events != 0 || r.Entries != 155 || r.EntriesOnly {
		t.Errorf("%+v", r)
	}
	// Entries show a gap in a stream only if the history was sealed again.
	l.Tamper(`UPDATE events SET stream_version = 90 WHERE stream_type = 'novel' AND stream_version = 22; DELETE FROM ledger_checkpoints;
		DELETE FROM ledger_seals; DELETE FROM ledger_tiles;
		UPDATE ledger_state SET tree_size = 0, root_hash = sha256(''), transaction_id = '0', position = -1`)
	l.Forget()
	l.Sign()
	r = run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys})
	wantFaults(t, "a gap", r, "stream@153", false)
	l.Tamper(`UPDATE ledger_seals SET event_count = event_count - 1 WHERE first_log_index = 150`)
	r = run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys})
	wantFaults(t, "a gap and a seal", r, "seal@154", false)
}

// TestSealsInTheMiddle: a missing seal is reported as such, wherever it is, and not as missing events.
func TestSealsInTheMiddle(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	for _, n := range []int{10, 20, 4100, 5} {
		l.Append(n)
	}
	l.Exec(`CREATE TABLE sound_seals AS TABLE ledger_seals; CREATE TABLE sound_events AS TABLE events`)
	for _, test := range []struct{ name, sql, want string }{
		{"the first one", `DELETE FROM ledger_seals WHERE first_log_index = 0`, "seal@0"},
		{"one in the middle", `DELETE FROM ledger_seals WHERE first_log_index = 10`, "seal@10"},
		{"one at a border", `DELETE FROM ledger_seals WHERE first_log_index = 30`, "seal@30 seal@4096"},
		{"events too few", `UPDATE ledger_seals SET event_count = 9 WHERE first_log_index = 0`, "seal@9"},
		{"events too many", `UPDATE ledger_seals SET event_count = 11 WHERE first_log_index = 0`, "seal@10"},
		{"all", `DELETE FROM ledger_seals`, "seal@0 seal@4096"},
		// Without the seal it is unknown whether two events were swapped.
		{
			"and an event replaced", `DELETE FROM events WHERE ` + at("17") + `; UPDATE events SET (transaction_id, position) =
			(SELECT transaction_id, 7 FROM ledger_seals WHERE first_log_index = 10) WHERE ` + at("4131") + `;
			DELETE FROM ledger_seals WHERE first_log_index = 4130`, "event@17 seal@4130",
		},
	} {
		l.Tamper(test.sql)
		wantFaults(t, test.name, run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys}), test.want, false)
		l.Tamper(`DELETE FROM ledger_seals; INSERT INTO ledger_seals SELECT * FROM sound_seals;
			DELETE FROM events; INSERT INTO events SELECT * FROM sound_events`)
	}
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
	l.Tamper(`UPDATE events SET data = '{}' WHERE ` + at("1234") + `;
		DELETE FROM ledger_checkpoints; DELETE FROM ledger_seals; DELETE FROM ledger_tiles;
		UPDATE ledger_state SET tree_size = 0, root_hash = sha256(''), transaction_id = '0', position = -1`)
	l.Forget()
	if n := l.Sign(); n != 4500 {
		t.Fatalf("%d entries", n)
	}
	for name, source := range map[string]audit.Source{
		"database": audit.NewDatabase(l.Pool), "bundle": bundles(t, export(t, l, 0)),
	} {
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
	l.Tamper(`DELETE FROM events WHERE transaction_id = (SELECT max(transaction_id) FROM ledger_seals);
		DELETE FROM ledger_checkpoints WHERE tree_size > 1000`)
	r := run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Kept: map[string][]byte{"kept": c.Note}})
	wantFaults(t, "cut", r, "truncated@1000", false)
}
