// Package load drives a comment endpoint in a closed loop: every connection sends its next comment as soon as the
// answer to the last one is in. Requests are written and answers parsed by hand, so that on a small machine the
// generator leaves the processors to what it measures.
package load
