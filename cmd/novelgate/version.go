package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the build (-ldflags "-X main.version=… -X main.commit=…").
var (
	version = "dev"
	commit  = ""
)

// VersionCommand is `novelgate version`.
type VersionCommand struct {
	OutputFlags
}

type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// Run prints what this program was built from.
func (c *VersionCommand) Run(in *invocation) error {
	b := thisBuild()
	return c.print(in, b, func() { fmt.Fprintln(in.stdout, b) })
}

// String is the version for people.
func (b build) String() string {
	return fmt.Sprintf("novelgate %s (commit %s, %s)", b.Version, b.Commit, b.Go)
}

func thisBuild() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok && b.Commit == "" {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				b.Commit = setting.Value
			}
		}
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}
