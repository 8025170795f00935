package audit_test

import (
	"testing"

	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
)

// Identifiers in SQL. theIntegration is that of ledgertest's comments.
const (
	theIntegration     = `'3f0e6f0a-6a5e-4a5e-9d0a-0a6a5e4a5e9d'`
	anotherIntegration = `md5('another')::uuid`
	theAuthor          = `md5('an author')::uuid`
	anotherAuthor      = `md5('another author')::uuid`
)

// appendAuthorEvent appends to the stream of an author and signs. A decision has a personal part, the record of an
// erasure has none.
func appendAuthorEvent(l *ledgertest.Ledger, kind, author, integration string) {
	l.Exec(`INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal, salt, actor, batch_id)
		SELECT (SELECT max(log_index) + 1 FROM events), 'author', ` + author + `, (SELECT count(*) + 1 FROM events WHERE stream_id = ` + author + `), gen_random_uuid(), 'staff', '` + kind + `',
			json_build_object('integrationId', ` + integration + `, 'reason', 'asked'),
			CASE WHEN '` + kind + `' NOT LIKE 'author.erased.%' THEN json_build_object('uuid', 'u') END, gen_random_uuid(), 'staff:ada', gen_random_uuid()`)
	l.Sign()
}

// erase removes personal data as an erasure does, with the triggers switched off.
func erase(l *ledgertest.Ledger, where string) {
	l.Tamper(`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal) WHERE personal IS NOT NULL AND (` + where + `)`)
}

// wantUnrecorded checks the number of erased events without a recorded erasure, and the first log index; -1: none. They
// are not a fault.
func wantUnrecorded(t *testing.T, what string, r *audit.Report, count, first int64) {
	t.Helper()
	wantFaults(t, what, r, "", false)
	got := int64(-1)
	if r.FirstErasedWithoutRecord != nil {
		got = *r.FirstErasedWithoutRecord
	}
	if r.ErasedWithoutRecord != count || got != first {
		t.Errorf("%s: %d erased events have no record, the first at %d, want %d from %d on", what, r.ErasedWithoutRecord, got,
			count, first)
	}
}

// TestErasedWithoutRecord: an erased event needs a later recorded erasure of the same integration; a decision about an
// author needs one of that author.
func TestErasedWithoutRecord(t *testing.T) {
	t.Parallel()
	const recorded, decided = "author.erased.v1", "author.blocked.v1"
	for name, test := range map[string]struct {
		fill         func(l *ledgertest.Ledger) // after 20 comments, at the log index 20
		erase        string
		count, first int64
	}{
		"nothing on record": {func(*ledgertest.Ledger) {}, at("5") + `OR` + at("7"), 2, 5},
		"recorded behind it": {
			func(l *ledgertest.Ledger) { appendAuthorEvent(l, recorded, theAuthor, theIntegration) }, at("5"), 0, -1,
		},
		"recorded in a later version": {
			func(l *ledgertest.Ledger) { appendAuthorEvent(l, "author.erased.v2", theAuthor, theIntegration) }, at("5"), 0, -1,
		},
		"of another integration": {
			func(l *ledgertest.Ledger) { appendAuthorEvent(l, recorded, theAuthor, anotherIntegration) }, at("5"), 1, 5,
		},
		"recorded in front of it": {func(l *ledgertest.Ledger) {
			appendAuthorEvent(l, recorded, theAuthor, theIntegration)
			l.Append(3)
		}, at("5") + `OR` + at("22"), 1, 22},
		"a decision, recorded": {func(l *ledgertest.Ledger) {
			appendAuthorEvent(l, decided, theAuthor, theIntegration)
			appendAuthorEvent(l, recorded, theAuthor, theIntegration)
		}, at("20"), 0, -1},
		"a decision, of another author": {func(l *ledgertest.Ledger) {
			appendAuthorEvent(l, decided, theAuthor, theIntegration)
			appendAuthorEvent(l, recorded, anotherAuthor, theIntegration)
		}, at("20") + `OR` + at("5"), 1, 20},
		"a decision of a new beginning": {func(l *ledgertest.Ledger) {
			appendAuthorEvent(l, recorded, theAuthor, theIntegration)
			appendAuthorEvent(l, decided, theAuthor, theIntegration)
		}, at("21"), 1, 21},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledgertest.New(t)
			l.Append(20)
			test.fill(l)
			erase(l, test.erase)
			for name, source := range sources(t, l) {
				wantUnrecorded(t, name, run(t, audit.Config{Source: source, Keys: l.Keys}), test.count, test.first)
			}
		})
	}
}

// TestErasedAcrossChunks: the recorded erasure may be in another chunk than the erased events.
func TestErasedAcrossChunks(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(4500)
	appendAuthorEvent(l, "author.erased.v1", theAuthor, theIntegration) // 4500
	l.Append(4500)
	older := export(t, l, 0)
	erase(l, at("100")+`OR`+at("4499")+`OR`+at("8300")+`OR`+at("8999"))
	early := export(t, l, 0)
	if n, err := verifyBundle(early, l.Keys[0]); n != 9001 || err != nil {
		t.Errorf("the independent verifier says %d, %v", n, err)
	}
	appendAuthorEvent(l, "author.linked.v1", theAuthor, theIntegration) // 9001
	newer := export(t, l, 9001)
	verified := func(first int64, dirs ...string) *audit.Report {
		return run(t, audit.Config{Source: bundles(t, dirs...), First: first, Keys: l.Keys, Workers: 4})
	}
	wantUnrecorded(t, "before anything was erased", verified(0, older), 0, -1)
	erasing := verified(0, early)
	wantUnrecorded(t, "while it is erased", erasing, 2, 8300)
	if erasing.Erased != 4 {
		t.Errorf("%d events are erased", erasing.Erased)
	}
	wantUnrecorded(t, "exported again, of which the newest counts", verified(0, older, early), 2, 8300)
	wantUnrecorded(t, "the end alone", verified(8192, newer), 2, 8300)
	wantUnrecorded(t, "the end, with words from before", verified(0, older, newer), 2, 8300)
	appendAuthorEvent(l, "author.erased.v1", theAuthor, theIntegration)
	newer = export(t, l, 9001)
	wantUnrecorded(t, "on record, the end alone", verified(8192, newer), 0, -1)
	wantUnrecorded(t, "on record, together with what was exported meanwhile", verified(0, early, newer), 0, -1)
	erase(l, at("9001"))
	wantUnrecorded(t, "a decision, too",
		run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: l.Keys, Workers: 4}), 0, -1)
}
