package reference

import (
	_ "novelgate/aggregates/novel" // want depguard
	_ "novelgate/projections"      // want depguard
)
