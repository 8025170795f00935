package naive

import (
	_ "novelgate/aggregates/novel" // want depguard
	_ "novelgate/projections"      // want depguard
)
