package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/problem"
)

// Webhook is an endpoint of a partner.
type Webhook struct {
	ID             uuid.UUID  `json:"webhookId"`
	URL            string     `json:"url"`
	Types          *[]string  `json:"types"` // nil: all
	Enabled        bool       `json:"enabled"`
	Disabled       *string    `json:"disabled"` // partner, staff, gone or failing; nil while enabled
	DisabledAt     *time.Time `json:"disabledAt"`
	DisabledReason *string    `json:"disabledReason"` // of staff
	CreatedAt      time.Time  `json:"createdAt"`
	Waiting        int        `json:"waiting"`       // number of changes of all types after the position, up to 1,000
	Failures       int        `json:"failures"`      // consecutive
	FailingSince   *time.Time `json:"failingSince"`  // the first of them; nil without one
	NextAttemptAt  *time.Time `json:"nextAttemptAt"` // after a failure
	Attempts       []Attempt  `json:"attempts"`      // the last twenty, newest first
}

// StaffWebhook is a webhook as staff see it.
type StaffWebhook struct {
	Webhook
	IntegrationID uuid.UUID `json:"integrationId"`
	DisabledBy    *string   `json:"disabledBy"` // such as staff:ada
}

// Attempt is a request to an endpoint.
type Attempt struct {
	At   time.Time `json:"at"`
	ID   string    `json:"id"` // of the change
	Type string    `json:"type"`
	Outcome
}

// Store is the webhooks in the database.
type Store struct{ Pool *pgxpool.Pool }

// maxWebhooks limits the webhooks of an integration.
const maxWebhooks = 10

// ErrNotFound refuses a webhook that does not exist, or is another integration's.
var ErrNotFound = problem.ErrNotFound.WithDetail("There is no such webhook.")

var (
	errTaken = problem.New(problem.CodeConflict, fmt.Sprintf(
		"This integration has a webhook with this address, or %d webhooks. Change or delete one of them.", maxWebhooks))
	errByStaff = problem.New(problem.CodeConflict, "The staff of the host platform switched this webhook off.")
)

const columns = `w.webhook_id, w.url, w.types, w.disabled IS NULL, w.disabled, w.disabled_at, w.disabled_reason, w.created_at,
    (SELECT count(*) FROM (SELECT FROM changes AS c WHERE c.integration_id = w.integration_id
        AND c.log_index >= w.position LIMIT 1000) AS c),
    w.failures, w.failing_since, CASE WHEN w.failures > 0 THEN w.next_attempt_at END, w.attempts, w.integration_id, w.disabled_by`

func scanWebhook(row pgx.CollectableRow) (w StaffWebhook, err error) {
	err = row.Scan(&w.ID, &w.URL, &w.Types, &w.Enabled, &w.Disabled, &w.DisabledAt, &w.DisabledReason, &w.CreatedAt,
		&w.Waiting, &w.Failures, &w.FailingSince, &w.NextAttemptAt, &w.Attempts, &w.IntegrationID, &w.DisabledBy)
	database.UTC(&w.CreatedAt, w.DisabledAt, w.FailingSince, w.NextAttemptAt)
	return w, err
}

// List returns the webhooks of an integration, or with uuid.Nil those of all integrations, oldest first.
func (s *Store) List(ctx context.Context, integration uuid.UUID) ([]StaffWebhook, error) {
	return database.Collect(ctx, s.Pool, "webhooks", scanWebhook, `SELECT `+columns+` FROM webhooks AS w
WHERE $1::uuid = '00000000-0000-0000-0000-000000000000' OR w.integration_id = $1 ORDER BY w.created_at, w.webhook_id`, integration)
}

// Find returns a webhook of an integration. If there is none, it fails with ErrNotFound.
func (s *Store) Find(ctx context.Context, integration, id uuid.UUID) (StaffWebhook, error) {
	return s.queryWebhook(ctx, "find webhook", `SELECT `+columns+` FROM webhooks AS w
WHERE w.webhook_id = $1 AND w.integration_id = $2`, id, integration)
}

// queryWebhook executes a statement that returns one webhook. If the statement returns none, it fails with ErrNotFound.
func (s *Store) queryWebhook(ctx context.Context, what, sql string, args ...any) (StaffWebhook, error) {
	rows, _ := s.Pool.Query(ctx, sql, args...) // CollectExactlyOneRow has the error
	found, err := pgx.CollectExactlyOneRow(rows, scanWebhook)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, ErrNotFound
	}
	if err != nil {
		return found, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

// createSQL adds a webhook whose position is the end of the log. $6: maximum number of webhooks of an integration.
// Requests at the same time may exceed it by a few, which harms nobody.
const createSQL = `INSERT INTO webhooks AS w (webhook_id, integration_id, url, types, secret, position)
SELECT $1, $2, $3, $4, $5, coalesce((SELECT max(log_index) + 1 FROM events), 0)
WHERE (SELECT count(*) FROM webhooks WHERE integration_id = $2) < $6
ON CONFLICT (integration_id, url) DO NOTHING
RETURNING ` + columns

// create adds a webhook and returns its secret.
func (s *Store) create(
	ctx context.Context, integration uuid.UUID, url string, types []string,
) (made StaffWebhook, shown string, err error) {
	secret, shown := newSecret()
	made, err = s.queryWebhook(ctx, "create webhook", createSQL, uuid.Must(uuid.NewV7()), integration, url, types,
		secret, maxWebhooks)
	if errors.Is(err, ErrNotFound) {
		err = errTaken
	}
	return made, shown, err
}

// settingsPatch is a change of the settings of a webhook; nil: unchanged.
type settingsPatch struct {
	URL     *string `json:"url"`
	Types   types   `json:"types"`
	Enabled *bool   `json:"enabled"`
	Since   *string `json:"since"` // a time: send everything from then on, again or not
}

// changeSQL ends the lease of a worker, so that a visit saves nothing under the old settings. Enabling a webhook ends
// its pause. Only staff enable a webhook that staff have disabled.
//
// A time sets the position before the first change since then. The search starts with the first change of all, because
// the log is not in the order of recorded_at when clocks are set back. The subquery reads the times of this partner's
// events only; a join could read all events. Without such a change the webhook continues where the projection is, and
// skips no event that it still has to read.
//
// $1: webhook; $2: integration, or uuid.Nil for staff; $3: URL; $4: types; $5: whether all types are sent; $6: whether
// it is enabled; $7: the time. NULL: unchanged.
const changeSQL = `UPDATE webhooks AS w SET url = coalesce($3, url), holder = NULL,
    types = CASE WHEN $5::boolean THEN NULL ELSE coalesce($4::text[], types) END,
    disabled = CASE WHEN $6::boolean THEN NULL WHEN NOT $6 THEN coalesce(disabled, 'partner') ELSE disabled END,
    disabled_at = CASE WHEN $6 THEN NULL WHEN NOT $6 THEN coalesce(disabled_at, now()) ELSE disabled_at END,
    disabled_reason = CASE WHEN $6 THEN NULL ELSE disabled_reason END,
    disabled_by = CASE WHEN $6 THEN NULL ELSE disabled_by END,
    failures = CASE WHEN $6 THEN 0 ELSE failures END, failing_since = CASE WHEN $6 THEN NULL ELSE failing_since END,
    next_attempt_at = CASE WHEN $6 THEN '-infinity' ELSE next_attempt_at END,
    position = CASE WHEN $7::timestamptz IS NULL THEN w.position ELSE coalesce((
        SELECT c.log_index FROM changes AS c WHERE c.integration_id = w.integration_id
            AND (SELECT e.recorded_at FROM events AS e WHERE e.log_index = c.log_index) >= $7
        ORDER BY c.log_index LIMIT 1
    ), (SELECT p.position FROM projections AS p WHERE p.name = 'changes'), w.position) END
WHERE webhook_id = $1 AND ($2::uuid = '00000000-0000-0000-0000-000000000000'
    OR integration_id = $2 AND ($6 IS NOT TRUE OR disabled IS DISTINCT FROM 'staff'))
RETURNING ` + columns

// change changes the settings of a webhook of an integration. since is the time in to.Since.
func (s *Store) change(
	ctx context.Context, integration, id uuid.UUID, to settingsPatch, since *time.Time,
) (StaffWebhook, error) {
	changed, err := s.queryWebhook(ctx, "change webhook", changeSQL, id, integration, to.URL, to.Types.kinds,
		to.Types.given && to.Types.kinds == nil, to.Enabled, since)
	if errors.Is(err, ErrNotFound) {
		if _, err = s.Find(ctx, integration, id); err == nil { // it exists, so staff have disabled it
			err = errByStaff
		}
	}
	// Another webhook of the integration has the address.
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "23505" {
		err = errTaken
	}
	return changed, err
}

const disableSQL = `UPDATE webhooks AS w SET disabled = 'staff', disabled_at = now(), disabled_reason = $2,
    disabled_by = $3, holder = NULL
WHERE webhook_id = $1 RETURNING ` + columns

// ErrReasonRequired refuses to disable a webhook without a reason.
var ErrReasonRequired = errors.New("a reason is required")

// Switch disables or enables a webhook for staff.
func (s *Store) Switch(ctx context.Context, id uuid.UUID, on bool, actor, reason string) (StaffWebhook, error) {
	if on {
		return s.queryWebhook(ctx, "enable webhook", changeSQL, id, uuid.Nil, nil, nil, false, true, nil)
	}
	if strings.TrimSpace(reason) == "" {
		return StaffWebhook{}, ErrReasonRequired
	}
	return s.queryWebhook(ctx, "disable webhook", disableSQL, id, reason, actor)
}

// Replay makes a webhook of an integration send everything from a time on, again or not, as a partner's since does.
func (s *Store) Replay(ctx context.Context, integration, id uuid.UUID, since time.Time) (StaffWebhook, error) {
	return s.change(ctx, integration, id, settingsPatch{}, &since)
}

// delete deletes a webhook of an integration.
func (s *Store) delete(ctx context.Context, integration, id uuid.UUID) error {
	tag, err := s.Pool.Exec(ctx, `DELETE FROM webhooks WHERE webhook_id = $1 AND integration_id = $2`, id, integration)
	if err != nil {
		return fmt.Errorf("delete webhook: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNotFound
	}
	return nil
}

const rotateSQL = `UPDATE webhooks AS w SET previous_secret = secret, previous_until = now() + $4::interval, secret = $3, holder = NULL
WHERE webhook_id = $1 AND integration_id = $2 RETURNING ` + columns

// rotate sets a new secret and returns it. For a time the old secret signs too.
func (s *Store) rotate(
	ctx context.Context, integration, id uuid.UUID, overlap time.Duration,
) (w StaffWebhook, shown string, err error) {
	secret, shown := newSecret()
	w, err = s.queryWebhook(ctx, "rotate secret", rotateSQL, id, integration, secret, overlap)
	return w, shown, err
}

// secretsColumn has the secrets that sign.
const secretsColumn = `array_remove(ARRAY[w.secret, CASE WHEN w.previous_until > now() THEN w.previous_secret END], NULL)`

// secrets returns the address of a webhook and its current secrets.
func (s *Store) secrets(ctx context.Context, integration, id uuid.UUID) (address string, secrets [][]byte, err error) {
	err = s.Pool.QueryRow(ctx, `SELECT w.url, `+secretsColumn+` FROM webhooks AS w
WHERE w.webhook_id = $1 AND w.integration_id = $2`, id, integration).Scan(&address, &secrets)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil, ErrNotFound
	}
	if err != nil {
		return "", nil, fmt.Errorf("read secrets: %w", err)
	}
	return address, secrets, nil
}
