package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Published is what a service says about the origins of its ledger: GET /ledger/origins.
type Published struct {
	Log        uuid.UUID      `json:"log"`     // random id of the log in this database
	Origins    []LedgerOrigin `json:"origins"` // oldest first; the last one is the current one
	Promotions []Promotion    `json:"promotions"`
	Handover   *uuid.UUID     `json:"handover"` // id of the promotion of a complete handover; nil without one
	// Changing means that a handover, its undoing or a promotion of this service is under way: the other fields may be
	// outdated in a moment.
	Changing bool `json:"changing"`
	// Standby means that a standby was read: the other fields may be behind, and Changing is false.
	Standby bool `json:"standby"`
}

// LedgerOrigin is a name under which the ledger was signed.
type LedgerOrigin struct {
	Origin    string    `json:"origin"`
	Entries   int64     `json:"entries"` // in the tree when the origin was started
	StartedAt time.Time `json:"startedAt"`
}

const (
	logSQL     = `SELECT id FROM log_identity`
	originsSQL = `SELECT origin, tree_size, started_at FROM ledger_origins ORDER BY ordinal`
)

// changingSQL returns whether a process holds the lock of lockKeySQL, and whether the server is a standby, where no
// process can hold it.
const changingSQL = `SELECT NOT pg_try_advisory_xact_lock_shared(` + lockKeySQL + `), pg_is_in_recovery()`

// Publish reads what a service publishes.
func Publish(ctx context.Context, db database.Querier) (p Published, err error) {
	// This is read first: if nothing is under way now, the reads below see the result of all that has ended.
	if err = db.QueryRow(ctx, changingSQL).Scan(&p.Changing, &p.Standby); err != nil {
		return Published{}, fmt.Errorf("read whether a handover is under way: %w", err)
	}
	if p.Log, err = logID(ctx, db); err != nil {
		return Published{}, err
	}
	if p.Promotions, err = List(ctx, db); err != nil {
		return Published{}, err
	}
	f, err := readFence(ctx, db)
	if err != nil {
		return Published{}, err
	}
	if f != nil && f.complete {
		p.Handover = &f.promotion
	}
	p.Origins, err = database.Collect(ctx, db, "origins", func(row pgx.CollectableRow) (l LedgerOrigin, err error) {
		err = row.Scan(&l.Origin, &l.Entries, &l.StartedAt)
		l.StartedAt = l.StartedAt.UTC()
		return l, err
	}, originsSQL)
	return p, err
}

// logID returns the id of a database's log.
func logID(ctx context.Context, db database.Querier) (id uuid.UUID, err error) {
	if err := db.QueryRow(ctx, logSQL).Scan(&id); err != nil {
		return uuid.Nil, fmt.Errorf("read the id of the log: %w", err)
	}
	return id, nil
}

// send sends a request with neither body nor API key to the service at a public URL. No cache may answer it.
func send(ctx context.Context, client *http.Client, method, url, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	request.Header.Set("Cache-Control", "no-cache")
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	return response, nil
}

// fetchOrigins fetches what the service at a public URL publishes now.
func fetchOrigins(ctx context.Context, client *http.Client, url string) (p Published, err error) {
	const maxBody = 1 << 20
	response, err := send(ctx, client, http.MethodGet, url, "/ledger/origins")
	if err != nil {
		return Published{}, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read from
	if response.StatusCode != http.StatusOK {
		return Published{}, fmt.Errorf("ask %s: %s", url, response.Status)
	}
	if err := json.UnmarshalRead(io.LimitReader(response.Body, maxBody), &p); err != nil {
		return Published{}, fmt.Errorf("ask %s: %w", url, err)
	}
	return p, nil
}

// answer is what the service at a public URL publishes, and how it answers a command without an API key:
//   - a service that accepts commands with 401,
//   - a mirror with 421 and the URL of its origin,
//   - a service that has handed over with 503 and the URL of its successor, if it knows that,
//   - a service that can only read its database with 503.
type answer struct {
	Published
	status int    // of the answer to the command
	code   string // of the problem in that answer; "" unless a Novelgate service has answered
	origin string // URL of the service to which it refers for the command; "" for none
}

// accepts reports whether the service accepts commands: the API key is all that was missing.
func (a *answer) accepts() bool { return a.code != "" && a.status == http.StatusUnauthorized }

// knowsRole reports whether the service has answered by the role of its database: as an origin, as a mirror, or as one
// that names its successor. A proxy has not, nor a service that does not reach its database.
func (a *answer) knowsRole() bool {
	return a.accepts() || a.code != "" && (a.isMirror() || a.origin != "")
}

// isMirror reports whether the service answers as a mirror. A service on a standby of a mirror's database does not: see
// isStandby.
func (a *answer) isMirror() bool { return a.status == http.StatusMisdirectedRequest }

// isStandby reports whether only a service on a standby answers, which may be behind. The refusal of the command does
// not show it: a service whose database does not answer for a moment refuses in the same way.
func (a *answer) isStandby() bool { return a.Standby && a.status == http.StatusServiceUnavailable }

// whichMirror returns which mirror answers at a URL that should lead to the origin: "this mirror", whose log has the id
// own, or "another mirror". It returns "" if no mirror answers. The id alone does not show that this mirror answers and
// not its origin: both have the same id if their databases are copies of one.
func (a *answer) whichMirror(own uuid.UUID) string {
	switch {
	case !a.isMirror():
		return ""
	case a.Log == own:
		return "this mirror"
	}
	return "another mirror"
}

// errStandby is the error for a URL at which a service on a standby publishes, not the one that answers commands.
var errStandby = errors.New("its /ledger/origins leads to a service on a standby, which may be behind: let it lead " +
	"to the service that answers commands")

// ask sends a command without an API key to the service at a public URL, and then fetches what it publishes. So
// Published is at least as new as the answer to the command, except from a standby (isStandby). ask fails, and
// returns the answer to the command, if nothing is published, for instance because the service has too many readers. It
// also fails if a standby publishes although a service that knows its role has answered the command.
func ask(ctx context.Context, client *http.Client, url string) (answer, error) {
	const maxBody = 1 << 16
	response, err := send(ctx, client, http.MethodPost, url, "/api/integrations/posts")
	if err != nil {
		return answer{}, err
	}
	var refusal struct {
		Code   string `json:"code"`
		Origin string `json:"origin"`
	}
	_ = json.UnmarshalRead(io.LimitReader(response.Body, maxBody), &refusal) // a proxy answers otherwise
	_ = response.Body.Close()                                                // it was only read from
	a := answer{status: response.StatusCode, code: refusal.Code, origin: refusal.Origin}
	a.Published, err = fetchOrigins(ctx, client, url)
	if err == nil && a.Standby && a.knowsRole() {
		err = fmt.Errorf("ask %s: %w", url, errStandby)
	}
	return a, err
}
