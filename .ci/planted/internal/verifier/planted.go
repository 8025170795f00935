package verifier

// This file breaks the rules for internal/verifier. .ci/check-planted checks that the linters notice.

import (
	_ "github.com/jackc/pgx/v5"     // want depguard
	_ "golang.org/x/mod/sumdb/tlog" // allowed: signed notes and Merkle trees

	_ "novelgate/events"              // want depguard
	_ "novelgate/events/ledger"       // want depguard
	_ "novelgate/events/ledger/audit" // want depguard
	_ "novelgate/internal/title"      // want depguard
	_ "novelgate/readapi"             // want depguard
)
