package title

import (
	_ "net/http" // want depguard

	_ "github.com/jackc/pgx/v5" // want depguard

	_ "novelgate/events"     // want depguard
	_ "novelgate/migrations" // want depguard
)
