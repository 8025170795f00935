package request

import (
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// elements yields the elements of an array that the decoder has found valid. Each
// is valid until the next.
func elements(array jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		s, _ := scanners.Get().(*scanner)
		defer s.release()
		dec := s.over(array)
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for dec.PeekKind() != ']' {
			value, err := dec.ReadValue()
			if err != nil || !yield(value) {
				return
			}
		}
	}
}
