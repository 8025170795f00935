package httpkit

import (
	_ "novelgate/aggregates/novel" // want depguard
	_ "novelgate/commands/access"  // want depguard
	_ "novelgate/projections"      // want depguard
)
