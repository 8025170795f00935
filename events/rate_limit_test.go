package events_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/events"
)

// TestLimitOfUpdatesIsAMember: versions from before it read what they know of the event, which is the limit that holds
// for "novels".
func TestLimitOfUpdatesIsAMember(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]events.RateLimitSet{
		`{"operation":"novels","perMinute":60}`: {Operation: "novels", PerMinute: 60},
		`{"operation":"novels","perMinute":60,"updates":{"perMinute":10}}`: {
			Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{PerMinute: new(10)},
		},
		`{"operation":"novels","perMinute":60,"updates":{"perMinute":null}}`: {
			Operation: "novels", PerMinute: 60, Updates: &events.UpdateLimit{},
		},
	} {
		got, err := events.Decode(events.Stored{Type: want.Type(), Data: []byte(stored)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(events.Event(want), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", stored, diff)
		}
		if encoded, err := events.Encode(want); err != nil || string(encoded.Data) != stored {
			t.Errorf("encoded as %s, want %s: %v", encoded.Data, stored, err)
		}
	}
}
