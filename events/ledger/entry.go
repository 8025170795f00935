package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// entryTag begins every entry and names the version of its encoding.
const entryTag = "novelgate/event/v1\n"

// Entry is a decoded entry: what a leaf of the tree commits to. Its bytes are, with integers big-endian:
//
//	tag           "novelgate/event/v1\n"
//	event id, source, type, stream type   each: uint16 length, bytes (UTF-8)
//	stream id     16 bytes
//	version       uint32
//	recorded_at   int64, microseconds since 1970-01-01T00:00:00Z
//	data          SHA-256 of the stored bytes
//	personal      one byte: 0 the event never had any; 1 SHA-256(salt ‖ personal) follows; 2 SHA-256(personal)
//	              follows, the event has no salt
//	metadata      SHA-256 of its canonical JSON (events.EncodeMetadata)
type Entry struct {
	ID, Source, Type, StreamType string

	StreamID       uuid.UUID
	StreamVersion  uint32
	RecordedAt     int64 // microseconds since 1970
	Data, Metadata []byte
	Personal       []byte // nil for PersonalNone
	PersonalForm   PersonalForm
}

// PersonalForm is the way in which an entry commits to the personal part of its event.
type PersonalForm byte

// Forms of the personal part.
const (
	PersonalNone   PersonalForm = 0 // the event never had one
	PersonalSalted PersonalForm = 1 // SHA-256(salt ‖ personal)
	PersonalPlain  PersonalForm = 2 // SHA-256(personal): the event has no salt
)

// Errors of the codec.
var (
	// ErrEntryTooLarge is returned for an event whose identifiers do not fit into an entry.
	ErrEntryTooLarge = errors.New("entry is too large")
	// ErrEntry is returned for bytes that are not an entry, or not an entry bundle.
	ErrEntry = errors.New("malformed entry")
)

// AppendEntry appends the encoded entry of an event. An event has the same entry before and after its erasure. It fails
// with ErrEntryTooLarge if one of the texts, or the entry, is longer than 65,535 bytes.
func AppendEntry(dst []byte, e *eventlog.Row) ([]byte, error) {
	start := len(dst)
	dst = append(dst, entryTag...)
	for _, text := range [...]string{e.ID, e.Source, e.Type, e.StreamType} {
		if len(text) > math.MaxUint16 {
			return nil, fmt.Errorf("%w: a text of %d bytes", ErrEntryTooLarge, len(text))
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(text))) //nolint:gosec // the length was checked
		dst = append(dst, text...)
	}
	dst = append(dst, e.StreamID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.StreamVersion))          //nolint:gosec // the column is an integer
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.RecordedAt.UnixMicro())) // two's complement, as documented
	dst = appendDigest(dst, e.Data)
	switch {
	case e.Personal != nil && e.Salt.Valid:
		dst = appendDigest(append(dst, byte(PersonalSalted)), e.Salt.UUID[:], e.Personal)
	case e.Personal != nil:
		dst = appendDigest(append(dst, byte(PersonalPlain)), e.Personal)
	case e.PersonalDigest != nil && !e.Salt.Valid: // erased: the stored digest begins with the byte of its form
		dst = append(dst, e.PersonalDigest...)
	default:
		dst = append(dst, byte(PersonalNone))
	}
	metadata, err := events.EncodeMetadata(&e.Metadata)
	if err != nil {
		return nil, err
	}
	dst = appendDigest(dst, metadata)
	if size := len(dst) - start; size > math.MaxUint16 {
		return nil, fmt.Errorf("%w: %d bytes", ErrEntryTooLarge, size)
	}
	return dst, nil
}

// appendDigest appends the SHA-256 of the parts' concatenation. It concatenates them behind dst to avoid an allocation.
func appendDigest(dst []byte, parts ...[]byte) []byte {
	if len(parts) == 1 {
		sum := sha256.Sum256(parts[0])
		return append(dst, sum[:]...)
	}
	end := len(dst)
	for _, part := range parts {
		dst = append(dst, part...)
	}
	sum := sha256.Sum256(dst[end:])
	return append(dst[:end], sum[:]...)
}

// ParseEntry decodes an entry. The result shares memory with raw. If it fails with ErrEntry, the result has the fields
// before the fault.
func ParseEntry(raw []byte) (Entry, error) {
	var e Entry
	rest, ok := bytes.CutPrefix(raw, []byte(entryTag))
	if !ok {
		return e, fmt.Errorf("%w: it has another tag", ErrEntry)
	}
	// take cuts the next n bytes off rest. If there are fewer, it returns zeros, and ok becomes false.
	take := func(n int) (part []byte) {
		if n > len(rest) {
			ok = false
			return make([]byte, n)
		}
		part, rest = rest[:n], rest[n:]
		return part
	}
	for _, text := range []*string{&e.ID, &e.Source, &e.Type, &e.StreamType} {
		*text = string(take(int(binary.BigEndian.Uint16(take(2)))))
	}
	e.StreamID = uuid.UUID(take(len(e.StreamID)))
	e.StreamVersion = binary.BigEndian.Uint32(take(4))
	e.RecordedAt = int64(binary.BigEndian.Uint64(take(8))) //nolint:gosec // two's complement, as documented
	e.Data = take(sha256.Size)
	if e.PersonalForm = PersonalForm(take(1)[0]); e.PersonalForm != PersonalNone {
		e.Personal = take(sha256.Size)
	}
	e.Metadata = take(sha256.Size)
	if !ok || len(rest) > 0 || e.PersonalForm > PersonalPlain {
		return e, fmt.Errorf("%w: %d bytes", ErrEntry, len(raw))
	}
	return e, nil
}

// lengthSize is the size of the length before each entry of an entry bundle (C2SP tlog-tiles).
const lengthSize = 2

// AppendToBundle appends an entry to an entry bundle. An empty entry means a missing event.
func AppendToBundle(bundle, entry []byte) []byte {
	bundle = binary.BigEndian.AppendUint16(bundle, uint16(len(entry))) //nolint:gosec // AppendEntry limits the length
	return append(bundle, entry...)
}

// SplitBundle returns the entries of an entry bundle. If it fails with ErrEntry, it returns the entries before the
// fault.
func SplitBundle(bundle []byte, count int) ([][]byte, error) {
	list := make([][]byte, 0, count)
	for len(list) < count {
		end := lengthSize
		if len(bundle) >= lengthSize {
			end += int(binary.BigEndian.Uint16(bundle))
		}
		if len(bundle) < end {
			return list, fmt.Errorf("%w: the bundle ends in entry %d of %d", ErrEntry, len(list), count)
		}
		list, bundle = append(list, bundle[lengthSize:end]), bundle[end:]
	}
	if len(bundle) > 0 {
		return list, fmt.Errorf("%w: %d bytes follow the last one", ErrEntry, len(bundle))
	}
	return list, nil
}
