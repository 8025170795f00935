package inorder_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"novelgate/internal/inorder"
)

func TestTurnsPassInOrder(t *testing.T) {
	t.Parallel()
	const n = 200
	var line inorder.Line
	turns := make([]inorder.Turn, n)
	want := make([]int, n)
	for i := range turns {
		turns[i], want[i] = line.Next(), i
	}
	var passed []int // guarded by the turns
	var workers sync.WaitGroup
	for _, i := range rand.Perm(n) {
		workers.Go(func() {
			if err := turns[i].Await(t.Context()); err != nil {
				t.Error(err)
			}
			passed = append(passed, i)
			turns[i].Pass()
		})
	}
	workers.Wait()
	if !slices.Equal(passed, want) {
		t.Errorf("passed in the order %v", passed)
	}
}

func TestNobodyFollowsATurnThatDoesNotPass(t *testing.T) {
	t.Parallel()
	var line inorder.Line
	line.Next() // never passes
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := errors.New("the first one failed")
	time.AfterFunc(10*time.Millisecond, func() { cancel(failed) })
	if err := line.Next().Await(ctx); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
