package imports

import "io"

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
