package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/events"
	"novelgate/events/ledger"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/names"
	"novelgate/internal/problem"
	"novelgate/projections"
	"novelgate/readapi/history"
)

func (c *Console) systemPages() []page {
	return []page{{path: "/system", show: c.system, act: c.operate}}
}

// systemBody is what the page of the system shows.
type systemBody struct {
	*survey

	Tasks       []task
	Replica     *replica // this one
	Projections []projections.Status
	Inline      []projections.Projection
	Rebuild     *rebuilding // the latest one on this replica; nil without one
	Ledger      ledger.Status
	Version     string
}

// task is something that is wrong, and what to do about it.
type task struct {
	Wrong, Do string
	Soon      bool // it harms nobody yet
}

// survey is what costs more to read. Visitors within a second share it.
type survey struct {
	Comments  *chart
	Checks    []database.Finding
	Witnesses []witness
	Webhooks  []webhooks.StaffWebhook // that fail
	Partners  map[uuid.UUID]string    // their names
	Server    server
}

// witness is a witness of the ledger.
type witness struct {
	Key        string
	Size       int64 // of the newest checkpoint that it has cosigned
	CosignedAt time.Time
}

// witnessesSQL reads a few rows: the cosignatures that are kept.
const witnessesSQL = `SELECT witness, max(tree_size), max(cosigned_at) FROM ledger_cosignatures
WHERE origin = (SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1) GROUP BY witness ORDER BY witness`

// server is what the database knows of itself and of all replicas.
type server struct {
	Version, Size, LogSize string
	Replicas               int
	Addresses              string
}

// serverSQL counts replicas by their connections for appends, of which each keeps two.
const serverSQL = `SELECT current_setting('server_version'), pg_size_pretty(pg_database_size(current_database())),
    pg_size_pretty(pg_total_relation_size('events')), coalesce(sum(r.replicas), 0)::integer,
    coalesce(string_agg(r.address || ' (' || r.replicas || ')', ', ' ORDER BY r.address), '')
FROM (SELECT coalesce(host(client_addr), 'this machine') AS address, (count(*) + 1) / 2 AS replicas
      FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'novelgate-append' GROUP BY client_addr) AS r`

// survey reads the survey.
func (c *Console) readSurvey(ctx context.Context) (*survey, error) {
	s := &survey{}
	if c.Diagnose != nil {
		s.Checks = c.Diagnose(ctx)
	}
	var err error
	if s.Comments, err = c.commentsPerMinute(ctx); err != nil {
		return nil, err
	}
	s.Witnesses, err = database.Collect(ctx, c.Pool, "witnesses", pgx.RowToStructByPos[witness], witnessesSQL)
	if err != nil {
		return nil, err
	}
	hooks, err := (&webhooks.Store{Pool: c.Pool}).List(ctx, uuid.Nil)
	if err != nil {
		return nil, err
	}
	var partners []uuid.UUID
	for i := range hooks {
		given := ""
		if hooks[i].Disabled != nil {
			given = *hooks[i].Disabled
		}
		if given == "gone" || given == "failing" || given == "" && hooks[i].Failures > 0 {
			s.Webhooks = append(s.Webhooks, hooks[i])
			partners = append(partners, hooks[i].IntegrationID)
		}
	}
	if s.Partners, err = names.Of(ctx, c.Pool, partners...); err != nil {
		return nil, err
	}
	err = c.Pool.QueryRow(ctx, serverSQL).Scan(&s.Server.Version, &s.Server.Size, &s.Server.LogSize, &s.Server.Replicas,
		&s.Server.Addresses)
	if err != nil {
		return nil, fmt.Errorf("read the state of the server: %w", err)
	}
	return s, nil
}

// perMinuteSQL counts the comments in ranges of the log. Of a range with more than fifty events it looks at fifty,
// spread evenly, and estimates. $1, $2: first log index and end of each range; $3: type of the events.
const perMinuteSQL = `SELECT counted.n * step, step > 1
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS m (first, next, n),
LATERAL (SELECT greatest((m.next - m.first + 49) / 50, 1) AS step) AS s,
LATERAL (SELECT count(*) AS n FROM generate_series(m.first, m.next - 1, step) AS i,
    LATERAL (SELECT event_type FROM events WHERE log_index = i LIMIT 1) AS e WHERE event_type = $3) AS counted
ORDER BY m.n`

// counted is a number of comments.
type counted struct {
	N         int64
	Estimated bool
}

func (n counted) String() string {
	if n.Estimated {
		return fmt.Sprintf("about %d", n.N)
	}
	return strconv.FormatInt(n.N, 10)
}

// commentsPerMinute returns the chart of the comments of the last hour.
func (c *Console) commentsPerMinute(ctx context.Context) (*chart, error) {
	end := c.Kit.Now().UTC()
	moments := make([]time.Time, minutes+1)
	for i := range moments {
		moments[i] = end.Add(time.Duration(i-minutes) * time.Minute)
	}
	ends, err := history.IndexesAt(ctx, c.Pool, moments...)
	if err != nil {
		return nil, err
	}
	counts, err := database.Collect(ctx, c.Pool, "comments per minute", pgx.RowToStructByPos[counted], perMinuteSQL,
		ends[:minutes], ends[1:], events.PostImported{}.Type())
	if err != nil {
		return nil, err
	}
	points, total := make([]point, minutes), counted{}
	for i, n := range counts {
		total.N, total.Estimated = total.N+n.N, total.Estimated || n.Estimated
		points[i] = point{
			Value: float64(n.N), Label: fmt.Sprintf("%v in the minute from %s", n, moments[i].Format("15:04:05")),
		}
	}
	summary := fmt.Sprintf("%v in the last hour, %v in the last minute (UTC)", total, counts[minutes-1])
	return newChart("Comments per minute", summary, points), nil
}

// system shows how the service is.
func (c *Console) system(ctx context.Context, _ *visit) (*view, error) {
	body := &systemBody{Version: c.Version, Inline: projections.Inline(), Rebuild: c.rebuilds.latest()}
	var err error
	if body.survey, err = c.surveys.Get(); err != nil {
		return nil, err
	}
	if body.Projections, err = projections.List(ctx, c.Pool); err != nil {
		return nil, err
	}
	if body.Ledger, err = ledger.ReadStatus(ctx, c.Pool); err != nil {
		return nil, err
	}
	if body.Replica, err = c.samples.replica(c.Gatherer, c.Kit.Now()); err != nil {
		return nil, err
	}
	body.Tasks = body.tasks(c.Kit.Now())
	return &view{template: "system", title: "System", body: body}, nil
}

// The limits are those of the alerts in deploy/prometheus/rules.yaml.
const (
	lagLimit      = 60.0 // seconds
	verifiedLimit = 8 * 24 * time.Hour
	latencyLimit  = time.Second
)

// tasks returns what is wrong, first what does harm.
func (b *systemBody) tasks(now time.Time) (list []task) {
	var soon []task
	add := func(wrong, do string) { list = append(list, task{Wrong: wrong, Do: do}) }
	for _, f := range b.Checks {
		switch f.Status {
		case database.OK:
		case database.Warn:
			soon = append(soon, task{f.Check + ": " + f.Found, f.Advice, true})
		case database.Fail:
			add(f.Check+": "+f.Found, f.Advice)
		}
	}
	for i := range b.Projections {
		p := &b.Projections[i]
		of := "projection " + p.Name
		switch {
		case p.State == projections.Failed:
			add(of+" has stopped at an event that it cannot apply", "Mend the cause and let it retry, or skip the event, below.")
		case p.Error != nil:
			add(of+" retries: "+*p.Error, "Mend the cause, such as a missing right or a damaged index. It then continues.")
		case p.UnknownType != nil:
			add(of+" waits for a newer replica, which knows events of the type "+*p.UnknownType, "Upgrade the replicas.")
		case p.LagSeconds > lagLimit:
			add(fmt.Sprintf("%s is %s behind", of, seconds(p.LagSeconds)),
				"If the lag grows, more comments arrive than the database can handle.")
		}
		if p.Rebuild != nil && p.Rebuild.Error != nil {
			add("the rebuild of "+p.Name+" has ended: "+*p.Rebuild.Error, "Mend the cause, and rebuild again: it continues.")
		}
	}
	l := &b.Ledger
	switch unsigned := l.CheckpointSize == nil || *l.CheckpointSize < l.Size; {
	case len(l.Trouble()) > 0: // among the checks
	case l.LagSeconds > lagLimit:
		add("the ledger is "+seconds(l.LagSeconds)+" behind", "See the log of the replicas.")
	case unsigned && now.Sub(l.SealedAt) > time.Minute:
		add("nobody signs the newest events", "Start a replica with the signer directory of the ledger, below.")
	}
	if now.Sub(l.VerifiedAt) > verifiedLimit {
		add("the history was last verified more than eight days ago", "Run `novelgate events verify`, best by its timer.")
	}
	switch r := b.Replica.Relay; {
	case r == nil:
	case r.Refused:
		add("the relay to NATS has stopped", "The log of this replica says why; docs/events.md, When the relay stops.")
	case r.LagSeconds > lagLimit:
		add("the relay is "+seconds(r.LagSeconds)+" behind", "NATS is away or too slow.")
	}
	if b.Replica.Slowest > latencyLimit {
		add("one command in a hundred takes longer than "+b.Replica.Slowest.String(),
			"More commands arrive than the database can handle: docs/operators.md, Capacity.")
	}
	if n := len(b.Webhooks); n > 0 {
		soon = append(soon, task{count(n, "webhook fails", "webhooks fail"), "Write to the partners, below.", true})
	}
	return append(list, soon...)
}

// seconds is a duration in words of the right size.
func seconds(n float64) string {
	return time.Duration(n * float64(time.Second)).Round(time.Second).String()
}

// operate executes the actions of operators.
func (c *Console) operate(ctx context.Context, v *visit) (*outcome, error) {
	name := v.PostForm.Get("name")
	var done *outcome
	var err error
	switch v.PostForm.Get("action") {
	case "rebuild":
		done, err = c.rebuild(v, name)
	case "retry":
		done = &outcome{notice: name + " tries again."}
		err = projections.Retry(ctx, c.Pool, name)
	case "skip":
		done, err = c.skip(ctx, v, name)
	default:
		err = problem.InvalidField("action", "must be rebuild, retry or skip")
	}
	switch {
	case errors.Is(err, projections.ErrUnknownProjection):
		err = problem.ErrNotFound.WithDetail("There is no such projection.")
	case errors.Is(err, projections.ErrNotFailed):
		err = problem.New(problem.CodeConflict, name+" has not failed, or goes on already.")
	}
	return done, err
}

// rebuild starts the rebuild of a projection.
func (c *Console) rebuild(v *visit, name string) (*outcome, error) {
	projection, err := projections.Find(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // operate knows it
	}
	question := "Rebuild " + name + " from the log? Its tables stay in use until the new ones replace them. It takes " +
		"disk space for a second copy of them."
	if projections.IsInline(projection) {
		question += " At the end commands wait for a moment."
	}
	if asked := confirm(v, question, "Rebuild "+name); asked != nil {
		return asked, nil
	}
	if !c.rebuilds.start(projection, v.user.Name) {
		return nil, problem.New(problem.CodeConflict, "This replica rebuilds another projection. Wait until it has ended.")
	}
	return &outcome{notice: "The rebuild of " + name + " has begun. Load the page again to see how far it is."}, nil
}

// skip makes a failed projection continue after the event at which it stopped.
func (c *Console) skip(ctx context.Context, v *visit, name string) (*outcome, error) {
	reason := strings.TrimSpace(v.PostForm.Get("reason"))
	switch {
	case reason == "":
		return nil, problem.InvalidField("reason", "is required: skipping an event is recorded for good")
	case auth.HasKey(reason):
		return nil, staff.ErrHasKey
	}
	// A form that is sent twice must not skip a second event.
	list, err := projections.List(ctx, c.Pool)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names what was read
	}
	event := v.PostForm.Get("event")
	if !slices.ContainsFunc(list, func(p projections.Status) bool {
		return p.Name == name && p.FailedAt != nil && strconv.FormatInt(*p.FailedAt, 10) == event
	}) {
		return nil, projections.ErrNotFailed
	}
	if asked := confirm(v, "Skip event "+event+" in "+name+"? It continues without what the event says, and so do all "+
		"rebuilds: the tables stay wrong there. It cannot be undone. The log records your name and the reason: "+reason,
		"Skip event "+event); asked != nil {
		return asked, nil
	}
	skipped, err := projections.Skip(ctx, c.Pool, name, v.staff.Actor, reason)
	if err != nil {
		return nil, err //nolint:wrapcheck // operate knows it
	}
	notice := fmt.Sprintf("%s goes on without event %d (%s).", name, skipped.LogIndex, skipped.EventType)
	return &outcome{notice: notice}, nil
}
