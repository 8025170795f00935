// Package planted breaks the rules for aggregates.
package planted

import (
	_ "context"      // want depguard
	_ "database/sql" // want depguard
	_ "io"           // want depguard
	_ "log/slog"     // want depguard
	_ "net/http"     // want depguard
	_ "os"           // want depguard
	_ "sync"         // want depguard
	"time"

	_ "github.com/gorilla/mux"  // want depguard
	_ "github.com/jackc/pgx/v5" // want depguard

	_ "novelgate/commands/access" // want depguard
	"novelgate/events"
	_ "novelgate/events/eventlog"   // want depguard
	_ "novelgate/internal/database" // want depguard
	_ "novelgate/migrations"        // want depguard
	_ "novelgate/projections"       // want depguard
	_ "novelgate/readapi"           // want depguard
)

// At reads the clock.
func At() time.Time { return time.Now() } // want forbidigo

// Kind forgets events.
func Kind(event events.Event) string {
	switch event.(type) { // want gochecksumtype
	case events.NovelCreated:
		return "novel"
	}
	return ""
}
