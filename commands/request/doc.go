// Package request turns the JSON bodies and the Idempotency-Key header of the partner interface, and the bodies of
// staff about novels, into validated commands. Every refusal is a *problem.Error with all invalid fields, in the order
// of the interface documentation.
//
// # JSON
//
// A body is one JSON object, read by web.Object. NUL is refused in every string of a known member. Unknown members
// are refused in a body of staff and ignored in others, except for a known name in another case, which is refused. null
// means omitted, and is refused for a required field.
//
// # Text
//
// Characters are Unicode code points. White space is the Unicode property White_Space. novel is cleaned by title.Clean
// (so a line break in it becomes a space); author, username, language and the entries of genres are trimmed; their
// lengths are counted after that. uuid, synopsis, content and parent_uuid are kept exactly as sent. Every character
// except NUL is accepted, and code that prints the text escapes it; but content must not contain HTML (see findHTML).
// An empty (or blank) language, an empty synopsis and an empty coverUrl clear the stored value.
//
// # Other fields
//
// chapterNumber keeps its exact value (see Decimal). For timestamp see parseTimestamp, for coverUrl checkCoverURL.
// parent_uuid may be any string; one that is not a valid Idempotency-Key matches no parent.
package request
