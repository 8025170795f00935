// Package admin serves the routes for staff below /api/admin. It parses requests and calls package staff, like the
// command line. docs/staff.md and docs/openapi.yaml describe the routes.
package admin
