package answer

import (
	"bytes"
	"sync"
)

// keptBuffer is the largest buffer that is used again. A few larger answers, kept for later ones that are not, would be
// most of the memory that the service takes.
const keptBuffer = 256 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Buffer returns an empty buffer for an answer, and what to call when it was sent.
func Buffer() (buffer *bytes.Buffer, free func()) {
	buffer, _ = buffers.Get().(*bytes.Buffer)
	return buffer, func() {
		if buffer.Cap() <= keptBuffer {
			buffer.Reset()
			buffers.Put(buffer)
		}
	}
}
