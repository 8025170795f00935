package changes

import (
	"testing"

	"novelgate/events"
	"novelgate/internal/testdb"
)

// TestEveryChangeHasData: each event of which partners are notified has a case in row.data.
func TestEveryChangeHasData(t *testing.T) {
	t.Parallel()
	for _, name := range events.Types() {
		event := testdb.Must(events.Decode(events.Stored{Type: name, Data: []byte("{}")}))(t)
		if (&row{}).data(event) == struct{}{} && events.ChangeOf(event) != "" {
			t.Errorf("%s has no data", name)
		}
	}
}
