package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"
	"time"
)

// EntryTag begins every entry: what the bytes are, and in which version of the encoding.
const EntryTag = "novelgate/event/v1\n"

// How an entry tells what there was to hash of the personal part.
const (
	personalNone   = 0 // the event never had one
	personalSalted = 1 // SHA-256(salt ‖ personal) follows
	personalPlain  = 2 // SHA-256(personal) follows: the event has no salt
)

// ErrEntryTooLarge is returned for an event whose identifiers do not fit into an entry.
var ErrEntryTooLarge = errors.New("entry is too large")

// Event is an event of the log as it is stored.
type Event struct {
	ID, Source, Type     string
	StreamType           string
	StreamID             [16]byte
	StreamVersion        int32
	RecordedAt           time.Time // to the microsecond
	Data, Personal, Salt []byte    // Personal and Salt are nil for NULL
	Metadata             []byte
}

// Entry returns the bytes that are a leaf of the tree. Integers are big-endian:
//
//	tag           "novelgate/event/v1\n"
//	event id, source, type, stream type   each: uint16 length, bytes (UTF-8)
//	stream id     16 bytes
//	version       uint32
//	recorded_at   int64, microseconds since 1970-01-01T00:00:00Z
//	data          SHA-256 of the stored bytes
//	personal      one byte: 0 the event never had any; 1 SHA-256(salt ‖ personal) follows; 2 SHA-256(personal)
//	              follows, the event has no salt
//	metadata      SHA-256 of the stored bytes
//
// It fails with ErrEntryTooLarge if a text is longer than 65,535 bytes, or all of them together are.
func (e *Event) Entry() ([]byte, error) {
	r := rawEvent{
		streamType: []byte(e.StreamType), streamID: e.StreamID[:], streamVersion: e.StreamVersion,
		id: []byte(e.ID), source: []byte(e.Source), eventType: []byte(e.Type),
		data: e.Data, personal: e.Personal, salt: e.Salt, metadata: e.Metadata, recordedAt: e.RecordedAt.UnixMicro(),
	}
	return newEncoder().append(nil, &r)
}

// rawEvent is a row of the log, undecoded. Its slices belong to the connection that it was read from.
type rawEvent struct {
	transactionID                               uint64
	position                                    int32
	streamType, streamID, id, source, eventType []byte
	streamVersion                               int32
	data, personal, salt, metadata              []byte
	recordedAt                                  int64 // microseconds since 1970
}

// encoder makes entries.
type encoder struct {
	hash hash.Hash
}

func newEncoder() *encoder { return &encoder{hash: sha256.New()} }

// append appends the entry of an event to dst.
func (c *encoder) append(dst []byte, e *rawEvent) ([]byte, error) {
	start := len(dst)
	for _, text := range e.texts() {
		if len(text) > math.MaxUint16 {
			return nil, fmt.Errorf("%w: a text of %d bytes", ErrEntryTooLarge, len(text))
		}
	}
	dst = e.appendLasting(dst)
	dst = c.digest(dst, e.data)
	switch {
	case e.personal == nil:
		dst = append(dst, personalNone)
	case e.salt == nil:
		dst = c.digest(append(dst, personalPlain), e.personal)
	default:
		dst = c.digest(append(dst, personalSalted), e.salt, e.personal)
	}
	dst = c.digest(dst, e.metadata)
	if size := len(dst) - start; size > math.MaxUint16 {
		return nil, fmt.Errorf("%w: %d bytes", ErrEntryTooLarge, size)
	}
	return dst, nil
}

func (e *rawEvent) texts() [4][]byte { return [...][]byte{e.id, e.source, e.eventType, e.streamType} }

// appendLasting appends the beginning of the entry: what an erasure leaves as it is, and no other event has.
func (e *rawEvent) appendLasting(dst []byte) []byte {
	dst = append(dst, EntryTag...)
	for _, text := range e.texts() {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(text))) //nolint:gosec // the encoder refuses longer ones
		dst = append(dst, text...)
	}
	dst = append(dst, e.streamID...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.streamVersion)) //nolint:gosec // the database refuses negative ones
	return binary.BigEndian.AppendUint64(dst, uint64(e.recordedAt))   //nolint:gosec // two's complement, as documented
}

// digest appends the SHA-256 of the parts' concatenation.
func (c *encoder) digest(dst []byte, parts ...[]byte) []byte {
	c.hash.Reset()
	for _, part := range parts {
		c.hash.Write(part)
	}
	return c.hash.Sum(dst)
}
