// Package request turns the JSON bodies and the Idempotency-Key header of the
// partner interface into validated commands. Every refusal is a *problem.Error, and
// all failing fields are in it, in the order of the interface documentation.
//
// # JSON
//
// A body is one JSON object, read by httpkit.Object. NUL is refused in any string that would be stored. Unknown members
// are ignored, but for one that differs from a known one in case only. null means omitted, and is refused where a field
// is required.
//
// # Text
//
// Characters are Unicode code points. White space is the Unicode property
// White_Space. novel is cleaned by title.Clean (so a line break in it becomes a
// space); author, username, language and the entries of genres are trimmed; all of
// these are counted after that. uuid, synopsis, content and parent_uuid are kept
// exactly as sent. The interface bounds lengths, not repertoires: every character
// but NUL is taken, and it is for those who print to escape. An empty (or blank)
// language and an empty synopsis clear the stored value.
//
// # Other fields
//
// chapterNumber keeps its exact value (see Decimal), timestamp is described at
// parseTimestamp, coverUrl at checkCoverURL. parent_uuid may be any string: one
// that cannot be an Idempotency-Key matches no parent.
package request
