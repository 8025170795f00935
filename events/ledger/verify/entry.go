package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"novelgate/events/ledger"
	"novelgate/events/ledger/bundle"
)

// entry is what a leaf of the tree says, see docs/ledger.md.
type entry struct {
	raw                      []byte
	id, source, kind, stream string // stream: its type
	streamID                 [16]byte
	version                  uint32
	recordedAt               int64 // microseconds since 1970
	data, personal, metadata []byte
	personalForm             byte
}

var errEntry = errors.New("is no entry")

// parseEntry takes an entry apart.
func parseEntry(raw []byte) (entry, error) {
	e := entry{raw: raw}
	rest, ok := bytes.CutPrefix(raw, []byte(ledger.EntryTag))
	if !ok {
		return e, fmt.Errorf("%w: another tag", errEntry)
	}
	take := func(n int) (part []byte) {
		if n > len(rest) {
			ok = false
			return make([]byte, n)
		}
		part, rest = rest[:n], rest[n:]
		return part
	}
	for _, text := range []*string{&e.id, &e.source, &e.kind, &e.stream} {
		*text = string(take(int(binary.BigEndian.Uint16(take(2)))))
	}
	e.streamID = [16]byte(take(16))
	e.version = binary.BigEndian.Uint32(take(4))
	e.recordedAt = int64(binary.BigEndian.Uint64(take(8))) //nolint:gosec // two's complement, as documented
	e.data = take(sha256.Size)
	if e.personalForm = take(1)[0]; e.personalForm != 0 {
		e.personal = take(sha256.Size)
	}
	e.metadata = take(sha256.Size)
	if !ok || len(rest) > 0 || e.personalForm > 2 {
		return e, fmt.Errorf("%w: %d bytes", errEntry, len(raw))
	}
	return e, nil
}

// split takes an entry bundle apart. What is returned is whole also when an error says that the rest is not.
func split(data []byte, count int) ([][]byte, error) {
	list := make([][]byte, 0, count)
	for len(list) < count {
		if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
			return list, fmt.Errorf("%w: the bundle ends in entry %d of %d", errEntry, len(list), count)
		}
		size := 2 + int(binary.BigEndian.Uint16(data))
		list, data = append(list, data[2:size]), data[size:]
	}
	if len(data) > 0 {
		return list, fmt.Errorf("%w: %d bytes follow the last one", errEntry, len(data))
	}
	return list, nil
}

// compare returns what of an event is not what its entry commits to, nothing for the right event. erased says that its
// personal part and salt are gone, which is in order: an erasure takes both at once. One that had no personal part may
// have a salt, to which its entry does not commit.
func (e *entry) compare(got *bundle.Event) (parts []Part, erased bool) {
	differs := func(part Part, really bool) {
		if really {
			parts = append(parts, part)
		}
	}
	differs(ID, e.id != got.ID)
	differs(EventSource, e.source != got.Source)
	differs(Type, e.kind != got.Type)
	differs(StreamType, e.stream != got.StreamType)
	differs(StreamID, e.streamID != got.StreamID)
	differs(StreamVersion, int64(e.version) != int64(got.StreamVersion))
	differs(RecordedAt, e.recordedAt != got.RecordedAt.UnixMicro())
	differs(Data, !isDigest(e.data, got.Data))
	switch {
	case e.personalForm == 0:
		differs(Personal, got.Personal != nil)
	case got.Personal == nil:
		erased = !got.Salt.Valid
		differs(Personal, !erased)
	case e.personalForm == 1:
		differs(Personal, !got.Salt.Valid || !isDigest(e.personal, got.Salt.UUID[:], got.Personal))
	default:
		differs(Personal, got.Salt.Valid || !isDigest(e.personal, got.Personal))
	}
	differs(Metadata, !isDigest(e.metadata, got.Metadata))
	return parts, erased
}

func isDigest(want []byte, parts ...[]byte) bool {
	data := parts[0]
	if len(parts) > 1 {
		data = bytes.Join(parts, nil)
	}
	sum := sha256.Sum256(data)
	return bytes.Equal(want, sum[:])
}

func names(parts []Part) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = string(part)
	}
	return strings.Join(texts, ", ")
}
