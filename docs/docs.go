// Package docs embeds the documents that the service serves.
package docs

import "embed"

//go:generate go test -count=1 -run ^TestAnalyticsPageIsUpToDate$ . -update

// OpenAPI is the OpenAPI 3.1 description of the HTTP interface, in YAML: the body of GET /openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Guides are the pages for partners that the service serves below /docs/, and those that they link.
//
//go:embed SPEC.md partners.md partner-clients.md reading.md staff.md console.md
var Guides embed.FS

// Program says on /docs how partners get the program. Go cannot fetch the module: the first element of its path has no
// dot. Once the module has a home, this becomes "go install HOME/cmd/novelgate@latest".
const Program = "The program novelgate (bulk import): ask the host platform for it, or for the source, from which " +
	"“go build ./cmd/novelgate” makes it."
