package events

// This file breaks the rules for events. .ci/check-planted checks that the linters notice.

import (
	_ "context"  // want depguard
	_ "net/http" // want depguard

	_ "github.com/jackc/pgx/v5" // want depguard

	_ "novelgate/internal/database" // want depguard
	_ "novelgate/migrations"        // want depguard
)
