// Package crud is the peer that the service is measured against: the same comment endpoint as a plain handler over
// tables, one transaction per request. It is meant to be as good as this shape gets: prepared statements, a pool of
// a sensible size, one statement per step, time-ordered identifiers, and the same decoder of request bodies as the
// service, so that only the write path differs. It counts no requests and keeps no metrics.
package crud
