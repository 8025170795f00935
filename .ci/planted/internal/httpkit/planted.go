package httpkit

// This file breaks the rules for internal/httpkit. .ci/check-planted checks that the linters notice.

import (
	_ "novelgate/aggregates/novel" // want depguard
	_ "novelgate/commands/access"  // want depguard
	_ "novelgate/projections"      // want depguard
)
