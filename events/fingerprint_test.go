package events_test

import (
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
)

func TestDiffers(t *testing.T) {
	t.Parallel()
	salt := uuid.NullUUID{UUID: id(1), Valid: true}
	kept := events.FingerprintOf(id(1), []byte("command"))
	for name, c := range map[string]struct {
		fingerprint events.Fingerprint
		salt        uuid.NullUUID
		command     string
		want        bool
	}{
		"the same":             {kept, salt, "command", false},
		"another":              {kept, salt, "Command", true},
		"another salt":         {kept, uuid.NullUUID{UUID: id(2), Valid: true}, "command", true},
		"erased":               {kept, uuid.NullUUID{}, "another", false},
		"nothing kept":         {events.Fingerprint{}, salt, "another", false},
		"an empty command too": {kept, salt, "", true},
	} {
		if got := c.fingerprint.Differs(c.salt, []byte(c.command)); got != c.want {
			t.Errorf("%s: differs %t", name, got)
		}
	}
	text, err := kept.MarshalText()
	if err != nil || string(text) != "Vj2FzNt7Jp9OmOzoVlzGuw" {
		t.Errorf("fingerprint %s, %v: those on record would no longer match", text, err)
	}
}
