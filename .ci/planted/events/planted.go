package events

import (
	_ "context"  // want depguard
	_ "net/http" // want depguard

	_ "github.com/jackc/pgx/v5" // want depguard

	_ "novelgate/internal/database" // want depguard
	_ "novelgate/migrations"        // want depguard
)
