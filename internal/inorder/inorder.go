// Package inorder lets work that is done side by side pass a point one after another.
package inorder

import "context"

// Line hands out turns. The zero value is ready. It is for one goroutine at a time.
type Line struct{ last chan struct{} }

// Turn is one place in a line.
type Turn struct{ before, passed chan struct{} }

// Next returns the turn behind all those that were handed out before.
func (l *Line) Next() Turn {
	t := Turn{before: l.last, passed: make(chan struct{})}
	l.last = t.passed
	return t
}

// Await blocks until the turn before has passed, or fails because ctx has ended.
func (t Turn) Await(ctx context.Context) error {
	if t.before == nil {
		return nil
	}
	select {
	case <-t.before:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pass lets the next turn begin. It is called once, and not at all where the next ones must not begin any more: their
// context has to end then.
func (t Turn) Pass() { close(t.passed) }
