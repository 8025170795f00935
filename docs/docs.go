// Package docs embeds the documents that the service serves.
package docs

import _ "embed"

//go:generate go test -count=1 -run ^TestAnalyticsPageIsUpToDate$ . -update

// OpenAPI is the OpenAPI 3.1 description of the HTTP interface, in YAML: the body of GET /openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
