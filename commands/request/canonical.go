package request

import (
	"encoding/binary"
)

// Canonical returns the normalised form of a command for fingerprints: the title folded, everything else as stored. The
// encoding is a version tag and the fields in a fixed order, each with its length; a byte before an optional field says
// whether it is present. The bytes may change when title.TableHash changes.
func (n Novel) Canonical() []byte {
	b := append(make([]byte, 0, 256), "novel.v1\n"...)
	b = appendText(b, n.FoldedTitle)
	b = appendOptional(b, n.Author)
	b = appendOptional(b, n.Synopsis)
	b = appendOptional(b, n.CoverURL)
	b = appendOptional(b, n.Language)
	b = appendOptional(b, n.ReadingStatus)
	if n.Genres == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(append(b, 1), uint64(len(*n.Genres)))
	for _, genre := range *n.Genres {
		b = appendText(b, genre)
	}
	return b
}

// Canonical returns the normalised form of a command, like that of Novel. It omits a timestamp that was not sent, so
// that a retry has the same bytes.
func (p Post) Canonical() []byte {
	b := append(make([]byte, 0, 128+len(p.Content)), "post.v1\n"...)
	b = appendText(b, p.AuthorUUID)
	b = appendText(b, p.Username)
	b = appendText(b, p.FoldedTitle)
	b = appendText(b, p.Content)
	b = appendOptional(b, (*string)(p.Chapter))
	if p.TimestampGiven {
		b = binary.AppendVarint(append(b, 1), p.WrittenAt.UnixMicro())
	} else {
		b = append(b, 0)
	}
	return appendOptional(b, p.ParentKey)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendOptional(b []byte, s *string) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendText(append(b, 1), *s)
}
