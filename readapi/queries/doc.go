// Package queries reads the public data: approved and published novels, their discussions, and single comments.
//
// # Pages of a discussion
//
// A discussion has pages of top-level comments, sorted by the time of writing, in either direction. Each one has its
// first replies of any depth, in the order of receipt. A reply never arrives before its parent, so the first N replies
// are a connected part of the tree. Further replies have pages of their own, for each top-level comment.
//
// # Statements
//
// A page of the current state is one statement of index scans, so a read model may be switched to its next generation
// at any time. A link to a comment takes a second statement, which finds its place.
//
// A page of a past time takes two more statements: one for the history of the novel, one for the names of authors at
// that time. Its cost grows: the state of the novel is built from all its events, one at a time, and comments with an
// earlier time of writing that were received later, as in an import of old comments, are skipped until the page is
// full. Only the time-out of the request limits this.
//
// # What is withheld
//
// Hidden and erased comments keep their places and replies. This package never returns their text and author.
package queries
