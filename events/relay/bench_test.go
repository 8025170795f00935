package relay_test

import (
	"testing"

	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
)

// BenchmarkRelay publishes a log of 20,000 events to three servers in this process.
func BenchmarkRelay(b *testing.B) {
	const size = 20_000
	s := setup(b, 3)
	s.Append(size)
	for b.Loop() {
		stop := s.start(s.Ledger, 3, nil)
		s.awaitRelayed()
		stop()
		b.StopTimer()
		for _, name := range []string{relay.StreamName(ledgertest.Origin), relay.PersonalStreamName(ledgertest.Origin)} {
			if err := s.js.DeleteStream(b.Context(), name); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "events/s")
}
