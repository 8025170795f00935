package imports

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// Chunks returns the lines of a part in chunks, up to an error.
func Chunks(unpacked io.Reader) (chunks [][][]byte, err error) {
	p := newPart(io.NopCloser(unpacked), 0)
	for {
		c, err := p.next()
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, c.lines)
	}
}

// Ordered reports whether the first chunk of lines is ordered.
func Ordered(lines []byte) bool {
	c, _ := newPart(io.NopCloser(bytes.NewReader(lines)), 0).next()
	return c.ordered
}

// Repacked packs lines and unpacks them again.
func Repacked(lines [][]byte) ([][]byte, error) { return unpackLines(packLines(lines)) }

// Open opens an import.
func (s *Store) Open(ctx context.Context, integration uuid.UUID) (uuid.UUID, error) {
	i, _, err := s.open(ctx, integration, uuid.New(), uuid.NewString())
	return i.ID, err
}

// Spool stores chunks of lines as a complete import.
func (s *Store) Spool(ctx context.Context, integration uuid.UUID, chunks ...string) (uuid.UUID, error) {
	id, err := s.Open(ctx, integration)
	if err != nil {
		return id, err
	}
	lines := int64(0)
	for _, text := range chunks {
		p := newPart(io.NopCloser(strings.NewReader(text)), lines)
		c, err := p.next()
		if err != nil {
			return id, err
		}
		if stored, err := s.append(ctx, id, &c, p); err != nil || !stored {
			return id, fmt.Errorf("chunk is stored: %v, %w", stored, err)
		}
		lines += p.count
	}
	_, err = s.complete(ctx, integration, id, &lines)
	return id, err
}

// Cancel cancels an import.
func (s *Store) Cancel(ctx context.Context, integration, id uuid.UUID) (Import, error) {
	return s.cancel(ctx, integration, id)
}

// Purge deletes what has ended longer ago than retention.
func (s *Store) Purge(ctx context.Context, retention time.Duration) error {
	s.Retention = retention
	return s.purge(ctx)
}

// Step visits one chunk, or advances the imports. It returns false when there was nothing to do.
func (w *Worker) Step(ctx context.Context, id uuid.UUID) (bool, error) {
	return w.step(ctx, id, newPace(w.Store.Pool, w.Now))
}

// Find returns an import of an integration.
func (s *Store) Find(ctx context.Context, integration, id uuid.UUID) (Import, error) {
	return s.find(ctx, integration, id)
}

// Estimate sets SecondsLeft.
func (i *Import) Estimate(limit ratelimit.Decision) { i.estimate(limit) }

// Rest pauses an import for permits.
func (i *Import) Rest() { i.paused = true }

// SaveSQL saves the outcomes of a chunk.
var SaveSQL = saveSQL
