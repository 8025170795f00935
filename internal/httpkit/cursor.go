package httpkit

import (
	"encoding/base64"
	"strings"
)

// EncodeCursor returns the cursor that clients see: the name of a list, so that a place in one list is not taken for
// one in another, and a place in it, in base64url.
func EncodeCursor(list, place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + place))
}

// DecodeCursor returns the place in a cursor of the list. ok is false for a cursor of another list and for text that is
// no cursor.
func DecodeCursor(list, cursor string) (place string, ok bool) {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(decoded), list)
}
