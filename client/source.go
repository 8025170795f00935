package client

import "embed"

// Source has the files of this package, which the service offers at /docs/client.zip.
//
//go:embed *.go
var Source embed.FS
