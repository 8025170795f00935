package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"

	"novelgate/events/eventlog"
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

// AppendEntry appends the bytes of an event that are a leaf of the tree. Integers are big-endian:
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
func AppendEntry(dst []byte, e *eventlog.Row) ([]byte, error) { return newEncoder().append(dst, e) }

// encoder makes entries.
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
		dst = append(dst, personalNone)
	case !e.Salt.Valid:
		dst = c.digest(append(dst, personalPlain), e.Personal)
	default:
		dst = c.digest(append(dst, personalSalted), e.Salt.UUID[:], e.Personal)
	}
	dst = c.digest(dst, e.Metadata)
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
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.StreamVersion))           //nolint:gosec // the database refuses others
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
