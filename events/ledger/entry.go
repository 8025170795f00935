package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// EntryTag begins every entry: what the bytes are, and in which version of the encoding.
const EntryTag = "novelgate/event/v1\n"

// Entry is what a leaf of the tree says about an event. Its bytes are, with integers big-endian:
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

// PersonalForm says how an entry commits to the personal part of its event.
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
	// ErrEntry is returned for bytes that are not an entry, or not a bundle of them.
	ErrEntry = errors.New("is no entry")
)

// AppendEntry appends the bytes of the entry of an event. It fails with ErrEntryTooLarge if one of the texts is longer
// than 65,535 bytes, or the entry is.
func AppendEntry(dst []byte, e *eventlog.Row) ([]byte, error) { return newEncoder().append(dst, e) }

// ParseEntry reads the bytes of an entry, of which it keeps parts. It fails with ErrEntry; what comes before the fault
// is returned then.
func ParseEntry(raw []byte) (Entry, error) {
	var e Entry
	rest, ok := bytes.CutPrefix(raw, []byte(EntryTag))
	if !ok {
		return e, fmt.Errorf("%w: another tag", ErrEntry)
	}
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

// encoder writes entries, many with one hash.
type encoder struct {
	hash hash.Hash
}

func newEncoder() *encoder { return &encoder{hash: sha256.New()} }

// append appends the entry of an event to dst.
func (c *encoder) append(dst []byte, e *eventlog.Row) ([]byte, error) {
	start := len(dst)
	for _, text := range texts(e) {
		if len(text) > math.MaxUint16 {
			return nil, fmt.Errorf("%w: a text of %d bytes", ErrEntryTooLarge, len(text))
		}
	}
	dst = appendLasting(dst, e)
	dst = c.digest(dst, e.Data)
	switch {
	case e.Personal == nil:
		dst = append(dst, byte(PersonalNone))
	case !e.Salt.Valid:
		dst = c.digest(append(dst, byte(PersonalPlain)), e.Personal)
	default:
		dst = c.digest(append(dst, byte(PersonalSalted)), e.Salt.UUID[:], e.Personal)
	}
	metadata, err := events.EncodeMetadata(&e.Metadata)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	dst = c.digest(dst, metadata)
	if size := len(dst) - start; size > math.MaxUint16 {
		return nil, fmt.Errorf("%w: %d bytes", ErrEntryTooLarge, size)
	}
	return dst, nil
}

func texts(e *eventlog.Row) [4]string { return [...]string{e.ID, e.Source, e.Type, e.StreamType} }

// appendLasting appends the beginning of the entry: what an erasure leaves as it is, and no other event has.
func appendLasting(dst []byte, e *eventlog.Row) []byte {
	dst = append(dst, EntryTag...)
	for _, text := range texts(e) {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(text))) //nolint:gosec // the encoder refuses longer ones
		dst = append(dst, text...)
	}
	dst = append(dst, e.StreamID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.StreamVersion))           //nolint:gosec // the column is an integer
	return binary.BigEndian.AppendUint64(dst, uint64(e.RecordedAt.UnixMicro())) // two's complement, as documented
}

// digest appends the SHA-256 of the parts' concatenation.
func (c *encoder) digest(dst []byte, parts ...[]byte) []byte {
	c.hash.Reset()
	for _, part := range parts {
		c.hash.Write(part)
	}
	return c.hash.Sum(dst)
}

// lengthSize is the size of the length in front of each entry of an entry bundle (C2SP tlog-tiles).
const lengthSize = 2

// appendFramed appends the entry of an event to an entry bundle, and returns both.
func (c *encoder) appendFramed(bundle []byte, e *eventlog.Row) (longer, entry []byte, err error) {
	from := len(bundle)
	if longer, err = c.append(append(bundle, 0, 0), e); err != nil {
		return nil, nil, err
	}
	entry = longer[from+lengthSize:]
	binary.BigEndian.PutUint16(longer[from:], uint16(len(entry))) //nolint:gosec // the encoder refuses larger ones
	return longer, entry, nil
}

// cutEntry takes the first entry off an entry bundle; ok is false if the bundle ends inside it.
func cutEntry(bundle []byte) (entry, rest []byte, ok bool) {
	if len(bundle) < lengthSize {
		return nil, nil, false
	}
	end := lengthSize + int(binary.BigEndian.Uint16(bundle))
	if len(bundle) < end {
		return nil, nil, false
	}
	return bundle[lengthSize:end], bundle[end:], true
}

// SplitBundle returns the entries of an entry bundle. When it fails with ErrEntry, the entries before the fault are
// returned.
func SplitBundle(bundle []byte, count int) ([][]byte, error) {
	list := make([][]byte, 0, count)
	for len(list) < count {
		entry, rest, ok := cutEntry(bundle)
		if !ok {
			return list, fmt.Errorf("%w: the bundle ends in entry %d of %d", ErrEntry, len(list), count)
		}
		list, bundle = append(list, entry), rest
	}
	if len(bundle) > 0 {
		return list, fmt.Errorf("%w: %d bytes follow the last one", ErrEntry, len(bundle))
	}
	return list, nil
}
