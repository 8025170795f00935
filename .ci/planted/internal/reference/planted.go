package reference

// This file breaks the rules for internal/reference. .ci/check-planted checks that the linters notice.

import (
	_ "novelgate/aggregates/novel" // want depguard
	_ "novelgate/projections"      // want depguard
)
