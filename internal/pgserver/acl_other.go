//go:build !linux

package pgserver

import "errors"

// grantPassage is for Linux, where root starts servers.
func grantPassage(string, int) error { return errors.ErrUnsupported }
