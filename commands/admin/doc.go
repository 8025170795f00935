// Package admin is the interface of the host platform's staff over HTTP, below /api/admin. It parses requests and calls
// package staff, as the command line does; docs/staff.md and docs/openapi.yaml describe it.
package admin
