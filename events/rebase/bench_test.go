package rebase_test

import (
	"testing"
	"time"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/rebase"
)

// benchEvents is how many events fillSQL appends.
const benchEvents = 300_000

// fillSQL appends 10,000 transactions of 30 comments with everything that a real one has.
const fillSQL = `DO $do$ BEGIN FOR t IN 1..10000 LOOP
	INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data,
	    personal, salt, metadata)
	SELECT i, 'post', gen_random_uuid(), 1, 'evt-' || gen_random_uuid(),
	    'integrations/3f0e6f0a-6a5e-4a5e-9d0a-0a6a5e4a5e9d/posts', 'post.imported.v1',
	       json_build_object('threadId', gen_random_uuid(), 'novelId', gen_random_uuid(), 'integrationId',
	           gen_random_uuid(), 'chapterNumber', i),
	       json_build_object('uuid', md5('u' || t || i), 'username', 'reader ' || i, 'content',
	           repeat('some words of a comment ', 8)), gen_random_uuid(),
	       json_build_object('actor', 'integration:3f0e6f0a-6a5e-4a5e-9d0a-0a6a5e4a5e9d', 'requestId', gen_random_uuid(),
	           'batch', gen_random_uuid(),
	                         'fingerprint', md5('f' || i) || md5('g' || t))
	FROM generate_series(0, 29) AS i;
	COMMIT;
END LOOP; END $do$`

// BenchmarkRebase moves a log of 300,000 events, whose indexes are made anew before it is verified again. Then it reads
// all of it, as projections do: every event has the same transaction id.
func BenchmarkRebase(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l := newRestored(b)
		l.Exec(fillSQL)
		l.sign()
		l.shift(3)
		l.Exec(`VACUUM events`)
		l.batch = 0 // the default
		b.StartTimer()
		mark := time.Now()
		_, err := l.rebase(b.Context(), func(phase string, done, _ int64) {
			if done == benchEvents {
				b.ReportMetric(benchEvents/time.Since(mark).Seconds(), map[string]string{
					rebase.Verifying: "verified/s", rebase.Moving: "moved/s", rebase.Again: "verified-again/s",
				}[phase])
				mark = time.Now()
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		reading := time.Now()
		after, n, portion := events.Position{}, 0, eventlog.NewPortion(1000)
		for {
			chunk, err := eventlog.ReadChunk(b.Context(), l.Pool, after, portion, []string{"none"})
			if err != nil {
				b.Fatal(err)
			}
			n += chunk.Read
			if after = chunk.End; !chunk.Full {
				break
			}
		}
		if n != benchEvents {
			b.Fatalf("%d events read", n)
		}
		b.ReportMetric(benchEvents/time.Since(reading).Seconds(), "read/s")
		b.StartTimer()
	}
}
