// Package queries reads what the public may see: approved and published novels, their discussions, single comments.
//
// # Pages of a discussion
//
// A discussion is paged by its top-level comments, by the time at which they were written, either way. Each comes with
// the first of its replies, whatever their depth, in the order in which they arrived: none arrives before what it
// replies to, so the first so many are a connected part of the tree. The rest are read from the top-level comment on,
// page by page.
//
// # Statements
//
// An answer of today is one statement of index probes, so a read model may be switched for its next generation at any
// moment. Only a link to a comment takes one more, which finds its place.
//
// A look into the past takes two more: one for the history of the novel, one for the names of those days. It costs
// more, too, and what it costs grows: the history of the novel is folded from its beginning, one event in memory at a
// time, and comments that were received later but are said to be written by then, as in an import of old ones, are
// passed over one by one until the page is full. Nothing but the time of the request bounds that.
//
// # What is withheld
//
// A comment that staff hid, and one that was erased, keeps its place and its replies; neither its text nor its author
// leaves this package.
package queries
