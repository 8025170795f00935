//go:build race

package e2e_test

// raceDetector tells whether this process runs under the race detector; the binary is then built with it too.
const raceDetector = true
