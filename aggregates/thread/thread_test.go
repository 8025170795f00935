package thread_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/thread"
	"novelgate/events"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	novelID := uuid.UUID{1}
	if diff := cmp.Diff([]events.Event{events.ThreadOpened{NovelID: novelID}}, thread.Thread{}.Open(novelID)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	if again := (thread.Thread{ID: uuid.UUID{2}}).Open(novelID); again != nil {
		t.Errorf("a novel got a second thread: %+v", again)
	}
}
