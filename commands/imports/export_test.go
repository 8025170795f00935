package imports

import (
	"context"
	"io"

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

// Repacked packs lines and unpacks them again.
func Repacked(lines [][]byte) ([][]byte, error) { return unpackLines(packLines(lines)) }

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
