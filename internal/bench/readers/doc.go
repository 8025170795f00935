// Package readers measures how fast pages are read: a large discussion, a load of readers, and the handler to compare
// with.
package readers
