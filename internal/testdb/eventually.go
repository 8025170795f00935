package testdb

import (
	"testing"
	"time"
)

// UntilSettled is how long a test waits for what waits in turn for all transactions on the server, such as that an
// event is projected or sealed. Other tests have long ones: filling a table takes some of them a minute on a busy
// machine.
const UntilSettled = 3 * time.Minute

// Eventually polls until ok holds, and fails the test when that takes longer than any transaction of another test does.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(UntilSettled); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", UntilSettled, what)
		}
	}
}

// Size returns full, or brief under -short. Runs under the race detector are short: it looks at each kind of access,
// and slows each of them down.
func Size(full, brief int) int {
	if testing.Short() {
		return brief
	}
	return full
}
