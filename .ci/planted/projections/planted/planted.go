// Package planted breaks the rules for projections.
package planted

import (
	_ "novelgate/aggregates/novel"   // want depguard
	_ "novelgate/commands/access"    // want depguard
	_ "novelgate/migrations"         // want depguard
	_ "novelgate/readapi"            // want depguard
)
