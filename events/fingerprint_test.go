package events_test

import (
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
)

func TestDiffers(t *testing.T) {
	t.Parallel()
	salt := uuid.NullUUID{UUID: id(1), Valid: true}
	kept := events.Metadata{Fingerprint: events.Fingerprint(id(1), []byte("command"))}
	for name, c := range map[string]struct {
		metadata events.Metadata
		salt     uuid.NullUUID
		command  string
		want     bool
	}{
		"the same":             {kept, salt, "command", false},
		"another":              {kept, salt, "Command", true},
		"another salt":         {kept, uuid.NullUUID{UUID: id(2), Valid: true}, "command", true},
		"erased":               {kept, uuid.NullUUID{}, "another", false},
		"nothing kept":         {events.Metadata{}, salt, "another", false},
		"an empty command too": {kept, salt, "", true},
	} {
		if got := events.Differs(c.metadata, c.salt, []byte(c.command)); got != c.want {
			t.Errorf("%s: differs %t", name, got)
		}
	}
	if kept.Fingerprint != "Vj2FzNt7Jp9OmOzoVlzGuw" {
		t.Errorf("fingerprint %s: those on record would no longer match", kept.Fingerprint)
	}
}
