package events

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// appender is implemented by what every comment has encoded: it appends the bytes that json.Marshal makes, without
// reflection. An event without it is encoded by its struct tags alone.
type appender interface {
	appendJSON(dst []byte) ([]byte, error)
}

// Bytes beside the text of a member's value, so that a buffer rarely grows.
const (
	postSize     = 384
	commentSize  = 64
	metadataSize = 384
)

func (p PostImported) appendJSON(dst []byte) (_ []byte, err error) {
	dst = slices.Grow(dst, postSize+len(p.NovelSlug)+len(p.ChapterNumber))
	dst = appendUUID(append(dst, `{"integrationId":`...), p.IntegrationID)
	dst = appendUUID(append(dst, `,"novelId":`...), p.NovelID)
	if dst, err = jsontext.AppendQuote(append(dst, `,"novelSlug":`...), p.NovelSlug); err != nil {
		return nil, fmt.Errorf("novelSlug: %w", err)
	}
	dst = appendUUID(append(dst, `,"threadId":`...), p.ThreadID)
	if p.ParentPostID != nil {
		dst = appendUUID(append(dst, `,"parentPostId":`...), *p.ParentPostID)
	}
	if p.ChapterNumber != nil {
		if dst, err = jsontext.AppendFormat(append(dst, `,"chapterNumber":`...), p.ChapterNumber); err != nil {
			return nil, fmt.Errorf("chapterNumber: %w", err)
		}
	}
	if dst, err = p.WrittenAt.AppendText(append(dst, `,"writtenAt":"`...)); err != nil {
		return nil, fmt.Errorf("writtenAt: %w", err)
	}
	return append(dst, `"}`...), nil
}

func (c *Comment) appendJSON(dst []byte) (_ []byte, err error) {
	dst = slices.Grow(dst, commentSize+len(c.ExternalUUID)+len(c.Username)+len(c.Content)+len(c.Content)/16)
	if dst, err = jsontext.AppendQuote(append(dst, `{"uuid":`...), c.ExternalUUID); err != nil {
		return nil, fmt.Errorf("uuid: %w", err)
	}
	if dst, err = jsontext.AppendQuote(append(dst, `,"username":`...), c.Username); err != nil {
		return nil, fmt.Errorf("username: %w", err)
	}
	if dst, err = jsontext.AppendQuote(append(dst, `,"content":`...), c.Content); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	return append(dst, '}'), nil
}

// EncodeMetadata returns the exact bytes that the log stores.
func EncodeMetadata(m *Metadata) (_ []byte, err error) {
	dst := append(make([]byte, 0, metadataSize+len(m.RequestID)), `{"actor":`...)
	if dst, err = jsontext.AppendQuote(dst, m.Actor); err != nil {
		return nil, fmt.Errorf("encode metadata: actor: %w", err)
	}
	for _, member := range [...]struct{ name, value string }{
		{`,"keyId":`, m.KeyID},
		{`,"requestId":`, m.RequestID},
		{`,"correlation":`, m.Correlation},
		{`,"causation":`, m.Causation},
	} {
		if dst, err = appendMember(dst, member.name, member.value); err != nil {
			return nil, err
		}
	}
	dst = appendUUID(append(dst, `,"batch":`...), m.Batch)
	if dst, err = appendMember(dst, `,"fingerprint":`, m.Fingerprint); err != nil {
		return nil, err
	}
	if dst, err = appendMember(dst, `,"traceparent":`, m.TraceParent); err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// appendMember appends a member unless its value is empty.
func appendMember(dst []byte, name, value string) ([]byte, error) {
	if value == "" {
		return dst, nil
	}
	dst, err := jsontext.AppendQuote(append(dst, name...), value)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %s %w", name[1:], err)
	}
	return dst, nil
}

func appendUUID(dst []byte, id uuid.UUID) []byte {
	dst = append(dst, '"')
	dst = append(hex.AppendEncode(dst, id[:4]), '-')
	dst = append(hex.AppendEncode(dst, id[4:6]), '-')
	dst = append(hex.AppendEncode(dst, id[6:8]), '-')
	dst = append(hex.AppendEncode(dst, id[8:10]), '-')
	return append(hex.AppendEncode(dst, id[10:]), '"')
}
