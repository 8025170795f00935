// Package planted breaks the rules for events/eventlog.
package planted

import (
	_ "github.com/gorilla/mux" // want depguard

	_ "novelgate/aggregates/novel" // want depguard
	_ "novelgate/commands/access"  // want depguard
	_ "novelgate/migrations"       // want depguard
)
