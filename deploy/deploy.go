// Package deploy holds the configuration files of a highly available installation, for the program that runs them on
// one machine.
package deploy

import "embed"

// Cluster has the files of the directory cluster, whose placeholders ${NAME} machine.env explains.
//
//go:embed cluster
var Cluster embed.FS
