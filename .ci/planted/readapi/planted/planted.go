// Package planted breaks the rules for readapi.
package planted

import (
	_ "novelgate/commands/access" // want depguard
	_ "novelgate/migrations"      // want depguard
	_ "novelgate/projections"     // want depguard
)
