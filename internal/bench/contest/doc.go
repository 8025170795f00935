// Package contest measures comment endpoints against each other on one PostgreSQL server.
//
// A contestant is a process of its own with a database of its own. Rounds of two contestants alternate, A B, B A, A B,
// so that what drifts (the machine, the growing tables) drifts for both, and ratios are taken per pair. A third process
// makes the load, so that its processor time is nobody's. The processor time of the database is that of the server and
// all its children. What a contestant does after its answers, such as the service's asynchronous projections, is
// waited for and counted: nothing is got for free by doing it later.
package contest
