package client

import (
	_ "github.com/google/uuid"     // want depguard
	_ "novelgate/internal/problem" // want depguard
	_ "testing"                    // want depguard
)
