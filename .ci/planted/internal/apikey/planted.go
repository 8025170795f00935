package apikey

// This file breaks the rules for internal/apikey. .ci/check-planted checks that the linters notice.

import (
	_ "net/http" // want depguard

	_ "github.com/jackc/pgx/v5" // want depguard

	_ "novelgate/events"     // want depguard
	_ "novelgate/migrations" // want depguard
)
