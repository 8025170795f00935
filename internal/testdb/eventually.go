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
	wait := time.Millisecond
	for deadline := time.Now().Add(UntilSettled); !ok(); time.Sleep(wait) {
		wait = min(2*wait, 20*time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", UntilSettled, what)
		}
	}
}
