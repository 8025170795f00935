// Package reading reads what the public may see: approved and published novels, their discussions, single comments.
//
// # Pages of a discussion
//
// A discussion is paged by its top-level comments, by the time at which they were written, either way. Each comes with the first
// of its replies, whatever their depth, in the order in which they arrived: none arrives before what it replies to, so the
// first so many are a connected part of the tree. The rest are read from the top-level comment on, page by page.
//
// # Statements
//
// An answer is one statement of index probes, so a read model may be switched for its next generation at any moment. Only a link
// to a comment takes one more, which finds its place, and a look into the past one more for the names of those days.
//
// # What is withheld
//
// A comment that staff hid, and one that was erased, keeps its place and its replies; neither its text nor its author leaves this
// package.
package reading
