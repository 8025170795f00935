// Package blackbox runs the service as its users meet it: the real binary as a process, HTTP requests, and the command
// line.
//
// The tests beside it are written from the documents alone. This package is what they stand on:
//
//   - [Start] runs `novelgate serve` on a database and stops it with SIGTERM; [Shared] is one such service for all
//     tests of a process.
//   - [Service.CLI] and the typed commands on top of it act as staff.
//   - [Partner] sends requests as a partner platform does.
//   - Every request and answer that passes through [Service.Send] is held against docs/openapi.yaml: an undocumented
//     status, header or member fails the test, as does an accepted request that the description calls invalid.
package blackbox
