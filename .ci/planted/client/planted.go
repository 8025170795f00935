package client

// This file breaks the rules for client. .ci/check-planted checks that the linters notice.

import (
	_ "github.com/google/uuid"     // want depguard
	_ "novelgate/internal/problem" // want depguard
	_ "testing"                    // want depguard
)
