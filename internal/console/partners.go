package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/principal"
	"novelgate/commands/ratelimit"
	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

func (c *Console) partnerPages() []page {
	return []page{
		{path: "/partners", query: []string{"cursor"}, show: c.partners, act: c.createPartner},
		{path: "/partners/{integrationId}", query: []string{"keys"}, show: c.partner, act: c.changePartner},
		{path: "/partners/{integrationId}/deliveries", query: deliveryFilters, show: c.deliveries},
	}
}

// partnersBody is what the list of partners shows.
type partnersBody struct {
	Partners []listedPartner
	New      settingsForm
	Next     string // path; "" on the last page
}

// listedPartner is an integration with its latest figures.
type listedPartner struct {
	staff.Integration
	figures
}

// figures are numbers of an integration. Days are those of UTC.
type figures struct {
	LastActivity    *time.Time // latest delivery; nil without one
	Today, WeekAgo  int        // comments written today, and on the whole same day a week ago
	Refusals        int        // kept ones of today
	FailingWebhooks int
}

// postsOn is SQL for the number of comments of an integration on a day, on up to two thousand novels, so that the
// import of a whole catalogue does not make the pages slow.
func postsOn(integration, day string) string {
	return `(SELECT coalesce(sum(f.posts), 0) FROM (SELECT f.posts FROM daily_facts AS f
        WHERE f.day = ` + day + ` AND f.integration_id = ` + integration + ` LIMIT 2000) AS f)`
}

// figuresSQL reads the figures of the integrations $1. $2: today; $3: the least id of refusals of today.
var figuresSQL = `SELECT a.last_activity_at, ` +
	postsOn("i.id", "$2::date") + `, ` + postsOn("i.id", "$2::date - 7") + `,
    (SELECT count(*) FROM refusals AS r WHERE r.integration_id = i.id AND r.refusal_id >= $3),
    (SELECT count(*) FROM webhooks AS w WHERE w.integration_id = i.id
        AND (w.failing_since IS NOT NULL OR w.disabled IN ('failing', 'gone')))
FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, n)
LEFT JOIN LATERAL (
    SELECT a.last_activity_at FROM integration_activity AS a WHERE a.integration_id = i.id LIMIT 1
) AS a ON true
ORDER BY i.n`

// figures reads the figures of integrations, in their order.
func (c *Console) figures(ctx context.Context, at time.Time, integrations ...uuid.UUID) ([]figures, error) {
	today := at.UTC().Truncate(24 * time.Hour)
	var since uuid.UUID // of version 7: it begins with the milliseconds
	for i, millis := 5, today.UnixMilli(); i >= 0; i, millis = i-1, millis>>8 {
		since[i] = byte(millis)
	}
	return database.Collect(ctx, c.Pool, "figures of partners", pgx.RowToStructByPos[figures], figuresSQL, integrations,
		today, since)
}

func (c *Console) partners(ctx context.Context, v *visit) (*view, error) {
	after := v.query.ID("cursor")
	if err := v.query.Err(); err != nil {
		return nil, err
	}
	found, err := v.staff.ListIntegrations(ctx, after.UUID, pageSize+1)
	if err != nil {
		return nil, err
	}
	body := &partnersBody{New: settingsForm{Integration: staff.Integration{
		PostsPerMinute: principal.DefaultPostsPerMinute, NovelsPerMinute: principal.DefaultNovelsPerMinute,
		LinesPerMinute: principal.DefaultLinesPerMinute,
	}}}
	if len(found) > pageSize {
		found = found[:pageSize]
		body.Next = nextPage(v, "cursor", found[pageSize-1].ID.String())
	}
	list := make([]uuid.UUID, len(found))
	for i := range found {
		list[i] = found[i].ID
	}
	counted, err := c.figures(ctx, v.at, list...)
	if err != nil {
		return nil, err
	}
	for i := range found {
		body.Partners = append(body.Partners, listedPartner{found[i], counted[i]})
	}
	return &view{template: "partners", title: "Partners", body: body}, nil
}

// createPartner registers an integration and issues its first key. A form that is sent again after a failure between
// the two continues.
func (c *Console) createPartner(ctx context.Context, v *visit) (*outcome, error) {
	change, err := changeOf(v)
	if err != nil {
		return nil, err
	}
	made, err := v.command("").CreateIntegration(ctx, v.PostForm.Get("name"), change)
	if before, ok := errors.AsType[*staff.ReplayedError](err); ok {
		made, err = v.staff.Integration(ctx, before.StreamID.String())
	}
	if err != nil {
		return nil, err
	}
	key, secret, err := v.command("/key").IssueKey(ctx, made.ID, 0)
	return newKey(&made, key, secret, err)
}

// keyBody is a new key, which is shown once.
type keyBody struct {
	Partner   *staff.Integration
	Prefix    string
	Secret    string // "" if it was shown before
	ExpiresAt *time.Time
}

// newKey shows a new key. When a form is sent again, its key was shown already, and nobody can read it any more.
func newKey(of *staff.Integration, key staff.Key, secret auth.Secret, err error) (*outcome, error) {
	body := &keyBody{Partner: of, Prefix: key.Prefix, ExpiresAt: key.ExpiresAt}
	if before, ok := errors.AsType[*staff.ReplayedError](err); ok {
		issued, ok := before.Event.(events.KeyIssued)
		if !ok {
			return nil, fmt.Errorf("a key is recorded as %s", before.Event.Type())
		}
		body.Prefix, body.ExpiresAt = issued.Prefix, issued.ExpiresAt
	} else if err != nil {
		return nil, err
	} else {
		body.Secret = secret.Reveal()
	}
	return &outcome{view: &view{template: "key", title: "Key of " + of.Name, body: body}}, nil
}

// settingsForm is the form of the settings of an integration.
type settingsForm struct{ staff.Integration }

// Can returns "on" for a capability that the integration has, and "" for others.
func (f settingsForm) Can(capability string) string {
	if slices.Contains(f.Capabilities, capability) {
		return "on"
	}
	return ""
}

// changeOf reads the settings that the person has changed in a form: those which differ from what the form showed, so
// that it takes nothing back that others have changed since.
func changeOf(v *visit) (principal.Change, error) {
	change := principal.Change{Capabilities: map[principal.Capability]bool{}}
	differs := func(field string) (string, bool) {
		text := v.PostForm.Get(field)
		return text, text != v.PostForm.Get("was-"+field)
	}
	if name, ok := differs("name"); ok {
		change.Name = &name
	}
	for _, capability := range principal.Capabilities() {
		if on, ok := differs(string(capability)); ok {
			change.Capabilities[capability] = on == "on"
		}
	}
	if on, ok := differs("review"); ok {
		change.Review = new(on == "on")
	}
	for _, limit := range []struct {
		field string
		to    **int
	}{
		{"postsPerMinute", &change.PostsPerMinute},
		{"novelsPerMinute", &change.NovelsPerMinute},
		{"linesPerMinute", &change.LinesPerMinute},
	} {
		if text, ok := differs(limit.field); ok {
			number, err := strconv.Atoi(text)
			if err != nil {
				return change, problem.InvalidField(limit.field, "must be a whole number")
			}
			*limit.to = &number
		}
	}
	return change, nil
}

// reverse returns the change that takes a change of an integration back.
func reverse(before *staff.Integration, c principal.Change) *principal.Change {
	back := &principal.Change{Capabilities: map[principal.Capability]bool{}}
	for capability := range c.Capabilities {
		back.Capabilities[capability] = slices.Contains(before.Capabilities, string(capability))
	}
	if c.Name != nil {
		back.Name = &before.Name
	}
	if c.Enabled != nil {
		back.Enabled = &before.Enabled
	}
	if c.Review != nil {
		back.Review = &before.Review
	}
	if c.PostsPerMinute != nil {
		back.PostsPerMinute = &before.PostsPerMinute
	}
	if c.NovelsPerMinute != nil {
		back.NovelsPerMinute = &before.NovelsPerMinute
	}
	if c.LinesPerMinute != nil {
		back.LinesPerMinute = &before.LinesPerMinute
	}
	return back
}

// limitUse is a limit per minute, with how much of it is used now.
type limitUse struct {
	Name        string
	Used, Limit int
}

// partnerBody is what the page of an integration shows.
type partnerBody struct {
	Partner  staff.Integration
	Figures  figures
	Settings settingsForm
	Limits   []limitUse
	Activity *chart
	Week     []dayCount
	Keys     []listedKey
	NextKeys string // path; "" on the last page
	Webhooks []webhooks.StaffWebhook
	Notes    []note
}

// listedKey is a key with its state: live, expired or revoked.
type listedKey struct {
	staff.Key

	State string
}

// weekSQL has the comments of the integration $1 on the seven days up to $2, and a week before each.
var weekSQL = `SELECT $2::date - n, ` + postsOn("$1", "$2::date - n") + `, ` + postsOn("$1", "$2::date - n - 7") + `
FROM generate_series(0, 6) AS n ORDER BY n DESC`

// find returns the integration in the path.
func (c *Console) find(ctx context.Context, v *visit) (staff.Integration, error) {
	id, err := web.PathID(v.Request, "integrationId")
	if err != nil {
		return staff.Integration{}, err
	}
	return v.staff.Integration(ctx, id.String())
}

func (c *Console) partner(ctx context.Context, v *visit) (*view, error) {
	after := v.query.ID("keys")
	if err := v.query.Err(); err != nil {
		return nil, err
	}
	id, err := web.PathID(v.Request, "integrationId")
	if err != nil {
		return nil, err
	}
	body := &partnerBody{}
	p := &body.Partner
	if *p, err = v.staff.IntegrationWithHistory(ctx, id.String()); err != nil {
		return nil, err
	}
	body.Settings = settingsForm{*p}
	counted, err := c.figures(ctx, v.at, id)
	if err != nil {
		return nil, err
	}
	body.Figures = counted[0]
	used, err := ratelimit.Used(ctx, c.Pool, id)
	if err != nil {
		return nil, err
	}
	body.Limits = []limitUse{
		{"comments", used[ratelimit.Posts], p.PostsPerMinute},
		{"new novels", used[ratelimit.Novels], p.NovelsPerMinute},
		{"lines in bulk", used[ratelimit.Lines], p.LinesPerMinute},
	}
	if body.Week, err = c.week(ctx, v.at, id); err != nil {
		return nil, err
	}
	body.Activity = drawWeek(body.Week)
	keys, err := v.staff.ListKeys(ctx, id, after.UUID, pageSize+1)
	if err != nil {
		return nil, err
	}
	if len(keys) > pageSize {
		keys = keys[:pageSize]
		body.NextKeys = nextPage(v, "keys", keys[pageSize-1].ID.String())
	}
	for _, key := range keys {
		state := "live"
		switch {
		case key.RevokedAt != nil:
			state = "revoked"
		case key.ExpiresAt != nil && !v.at.Before(*key.ExpiresAt):
			state = "expired"
		}
		body.Keys = append(body.Keys, listedKey{key, state})
	}
	if body.Webhooks, err = v.staff.ListWebhooks(ctx, id); err != nil {
		return nil, err
	}
	if body.Notes, err = c.notes(ctx, id); err != nil {
		return nil, err
	}
	return &view{template: "partner", title: p.Name, body: body}, nil
}

// dayCount has the comments of a day, and of the same day a week before.
type dayCount struct {
	Day           time.Time
	Posts, Before int
}

// week returns the comments of the last seven days.
func (c *Console) week(ctx context.Context, at time.Time, integration uuid.UUID) ([]dayCount, error) {
	return database.Collect(ctx, c.Pool, "activity", pgx.RowToStructByPos[dayCount], weekSQL, integration, at.UTC())
}

// drawWeek draws two bars for each day: the same day a week before, and the day.
func drawWeek(week []dayCount) *chart {
	var points []point
	total, before := 0, 0
	for _, d := range week {
		name := d.Day.Format("Monday 2 January")
		points = append(points,
			point{Value: float64(d.Before), Label: fmt.Sprintf("a week before %s: %d", name, d.Before), Past: true},
			point{Value: float64(d.Posts), Label: fmt.Sprintf("%s: %d", name, d.Posts)})
		total, before = total+d.Posts, before+d.Before
	}
	return newChart("Comments of the last seven days", fmt.Sprintf("%d, and %d in the seven days before. Each day "+
		"stands beside the same day a week before, in grey; today is not over.", total, before), points)
}

// maxReason is the maximum length of a reason, in characters, as in the forms.
const maxReason = 500

// changePartner executes a form of the page of an integration.
func (c *Console) changePartner(ctx context.Context, v *visit) (*outcome, error) {
	before, err := c.find(ctx, v)
	if err != nil {
		return nil, err
	}
	reason := strings.TrimSpace(v.PostForm.Get("reason"))
	switch {
	case auth.HasKey(reason):
		return nil, staff.ErrHasKey
	case len([]rune(reason)) > maxReason:
		return nil, problem.InvalidField("reason", fmt.Sprintf("must have at most %d characters", maxReason))
	}
	switch action := v.PostForm.Get("action"); action {
	case "settings":
		change, err := changeOf(v)
		if err != nil {
			return nil, err
		}
		return c.setPartner(ctx, v, &before, change, "settings changed", "Restore the settings of "+before.Name, reason)
	case "enable":
		return c.setPartner(ctx, v, &before, principal.Change{Enabled: new(true)}, "enabled", "Disable "+before.Name, reason)
	case "disable":
		return c.setPartner(ctx, v, &before, principal.Change{Enabled: new(false)}, "disabled", "Enable "+before.Name, reason)
	case "issue":
		lifetime, err := hours(v, "lifetime")
		if err != nil {
			return nil, err
		}
		key, secret, err := v.command("").IssueKey(ctx, before.ID, lifetime)
		return newKey(&before, key, secret, err)
	case "rotate", "revoke":
		return c.endKey(ctx, v, &before, action, reason)
	default:
		return c.actOnWebhook(ctx, v, &before, action, reason)
	}
}

// setPartner changes settings. The log has no reason for that, so it becomes a note.
func (c *Console) setPartner(
	ctx context.Context, v *visit, before *staff.Integration, change principal.Change, done, undoing, reason string,
) (*outcome, error) {
	after, err := v.command("").ChangeIntegration(ctx, before.ID, change)
	switch {
	case isNew(err) != nil:
		return nil, isNew(err)
	case err == nil && reflect.DeepEqual(after, *before):
		return &outcome{notice: "Nothing was changed."}, nil
	}
	said := &outcome{notice: before.Name + ": " + done + "."}
	if err == nil { // otherwise the form was sent twice, and the first has left the undo
		if reason != "" {
			c.noteAction(ctx, v, before.ID, done+": "+reason)
		}
		said.undo = &undo{Label: undoing, Integration: before.ID, Change: reverse(before, change)}
	}
	return said, nil
}

// noteAction adds what a person did to the notes on an integration. The log has no events about webhooks, and no
// reasons of settings. The action itself stands, so a failure is only logged.
func (c *Console) noteAction(ctx context.Context, v *visit, integration uuid.UUID, text string) {
	ctx, cancel := c.Kit.WithTimeout(ctx) // the action may have taken all time of the request
	defer cancel()
	if err := c.addNote(ctx, v, integration, text); err != nil {
		c.Kit.Logger.WarnContext(ctx, "an action for a partner is not in its notes", slog.Any("error", err))
	}
	c.Kit.Logger.InfoContext(ctx, "staff acted for a partner", slog.String("name", v.user.Name),
		slog.String("integrationId", integration.String()), slog.String("action", text))
}

// nameOf names a webhook in notes and the log by its host, because the rest of an address may have a secret.
func nameOf(hook *webhooks.StaffWebhook) string {
	u, err := url.Parse(hook.URL)
	if err != nil {
		return "webhook " + hook.ID.String()
	}
	return "webhook " + hook.ID.String()[:8] + " at " + u.Host
}

// hours reads a field that is a number of hours, at most a hundred years.
func hours(v *visit, field string) (time.Duration, error) {
	const most = 100 * 365 * 24
	n, err := strconv.Atoi(v.PostForm.Get(field))
	if err != nil || n < 0 || n > most {
		return 0, problem.InvalidField(field, fmt.Sprintf("must be a number of hours from 0 to %d", most))
	}
	return time.Duration(n) * time.Hour, nil
}

// endKey replaces or revokes a key of an integration.
func (c *Console) endKey(
	ctx context.Context, v *visit, of *staff.Integration, action, reason string,
) (*outcome, error) {
	id, err := selectedOne(v, "key")
	if err != nil {
		return nil, err
	}
	key, err := v.staff.Key(ctx, id)
	if err == nil && key.IntegrationID != of.ID {
		err = principal.ErrKeyNotFound
	}
	if err != nil {
		return nil, err
	}
	if action == "revoke" {
		if asked := confirm(v, "Revoke the key "+key.Prefix+" of "+of.Name+
			"? Within a second, requests with it are refused. A revoked key never works again.", "Revoke"); asked != nil {
			return asked, nil
		}
		_, err := v.command("").RevokeKey(ctx, key.ID, reason)
		return &outcome{notice: "The key " + key.Prefix + " is revoked."}, isNew(err)
	}
	overlap, err := hours(v, "overlap")
	if err != nil {
		return nil, err
	}
	if overlap == 0 {
		if asked := confirm(v, "Replace the key "+key.Prefix+" of "+of.Name+
			" now? Requests with it are refused until the partner uses the new one.", "Replace now"); asked != nil {
			return asked, nil
		}
	}
	made, secret, err := v.command("").RotateKey(ctx, key.ID, overlap)
	return newKey(of, made, secret, err)
}

// actOnWebhook switches a webhook off or on, tests it, or makes it send again.
func (c *Console) actOnWebhook(
	ctx context.Context, v *visit, of *staff.Integration, action, reason string,
) (*outcome, error) {
	id, err := selectedOne(v, "webhook")
	if err != nil {
		return nil, err
	}
	store := &webhooks.Store{Pool: c.Pool}
	hook, err := store.Find(ctx, of.ID, id)
	if err != nil {
		return nil, err
	}
	called := nameOf(&hook)
	switch action {
	case "webhook-enable", "webhook-disable":
		on := action == "webhook-enable"
		if _, err := v.staff.SwitchWebhook(ctx, hook.ID, on, reason); err != nil {
			return nil, err
		}
		done, label := "disabled", "Enable"
		if on {
			done, label = "enabled", "Disable"
		}
		c.noteAction(ctx, v, of.ID, strings.TrimSuffix(called+" "+done+": "+reason, ": "))
		return &outcome{
			notice: "The webhook is " + done + ".",
			undo:   &undo{Label: label + " the webhook", Integration: of.ID, Webhook: hook.ID, Enable: !on},
		}, nil
	case "webhook-test":
		found, err := c.Sender.Test(ctx, v.writer, store, of.ID, hook.ID)
		if err != nil {
			return nil, err
		}
		said := "not accepted"
		if found.Delivered {
			said = "accepted"
		}
		said += fmt.Sprintf(" (%d ms", found.Milliseconds)
		if found.Status != nil {
			said += fmt.Sprintf(", status %d", *found.Status)
		}
		said += ")"
		if found.Error != nil {
			said += ": " + *found.Error
		}
		c.noteAction(ctx, v, of.ID, called+" tested: "+said)
		return &outcome{notice: "The test message was " + said + "."}, nil
	case "webhook-replay":
		since, err := time.Parse("2006-01-02T15:04", v.PostForm.Get("since"))
		if err != nil || since.After(v.at) {
			return nil, problem.InvalidField("since", "must be a time in the past, such as 2026-01-31T12:00")
		}
		at := since.Format("2 January 2006, 15:04 UTC")
		if asked := confirm(v, "Send all changes since "+at+" to "+hook.URL+
			"? The endpoint gets those again that it has had. Earlier ones that still wait are not sent.",
			"Send them"); asked != nil {
			return asked, nil
		}
		if _, err := store.Replay(ctx, of.ID, hook.ID, since); err != nil {
			return nil, err
		}
		c.noteAction(ctx, v, of.ID, called+" sends again since "+at)
		return &outcome{notice: "The webhook sends everything since " + at + "."}, nil
	default:
		return nil, problem.InvalidField("action", "is not known")
	}
}

// takeBackPartner undoes a change of an integration or of a webhook.
func (c *Console) takeBackPartner(ctx context.Context, v *visit, u *undo, reason string) error {
	if u.Change != nil {
		_, err := v.command("").ChangeIntegration(ctx, u.Integration, *u.Change)
		return isNew(err)
	}
	hook, err := v.staff.SwitchWebhook(ctx, u.Webhook, u.Enable, reason)
	if err == nil {
		c.noteAction(ctx, v, u.Integration, u.Label+": "+nameOf(&hook))
	}
	return err
}
