// Package planted breaks the rules for migrations.
package planted

import (
	_ "novelgate/aggregates/novel" // want depguard
	_ "novelgate/commands/access"  // want depguard
	_ "novelgate/events"           // want depguard
)
