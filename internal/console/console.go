// Package console serves staff and auditors in the browser, below /console. docs/console.md describes it.
//
// It is a form of the routes of staff and of the event history: a page shows what package staff (or history, webhooks,
// projections) reads, and an action executes the same command as the route, with the same event. The console itself
// keeps sessions (session.go), and who is looking at what in a queue.
//
// Each group of pages has a file, which declares them as a []page. Pages need no script: script.js adds keys and live
// counts. Text of partners is untrusted, and treated as by package pages.
package console

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
	"novelgate/readapi/pages"
)

// Config is what a Console needs.
type Config struct {
	Kit       *web.Kit // with Metrics; its Problems include those of the packages whose functions the console calls
	Keys      *auth.Keys
	Pool      *pgxpool.Pool
	Access    *pgxpool.Pool // for sessions
	History   *pgxpool.Pool // for the event history
	Addresses web.Addresses // of the platform: links to the readers' pages
	Base      string        // path before /console; "" or it begins with a slash
	Origins   []string      // origins at which browsers see the console, such as https://novels.example
	Metrics   *Metrics
	Sender    *webhooks.Sender // for tests of webhooks

	// For the page of the system:
	Version  string
	Gatherer prometheus.Gatherer                          // the metrics of the process
	Diagnose func(ctx context.Context) []database.Finding // the checks of `novelgate doctor`
}

// Console serves the console. Create it with New, and let Run run.
type Console struct {
	Config

	templates map[string]*template.Template
	sessions  sessions
	attempts  attempts
	protect   *http.CrossOriginProtection
	surveys   *database.ScrapeCache[*survey]
	latency   *prometheus.Registry // has the latency of requests: to gather all metrics would query the database
	samples   samples
	rebuilds  rebuilds
}

// New returns a console.
func New(config Config) (*Console, error) {
	c := &Console{
		Config: config, sessions: newSessions(config.Access), attempts: newAttempts(),
		protect: http.NewCrossOriginProtection(), rebuilds: rebuilds{requests: make(chan *rebuilding, 1)},
		latency: prometheus.NewRegistry(),
	}
	c.latency.MustRegister(config.Kit.Metrics)
	c.surveys = database.NewScrapeCache(config.Kit.Now, c.readSurvey)
	for _, origin := range config.Origins {
		if err := c.protect.AddTrustedOrigin(origin); err != nil {
			return nil, err //nolint:wrapcheck // it names the origin
		}
	}
	c.protect.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.refuse(w, r, nil, problem.New(problem.CodeForbidden, "This form does not come from the console."))
	}))
	c.templates = c.parse()
	return c, nil
}

// page is a page of the console, and what its forms do.
type page struct {
	path  string   // below /console, with variables of gorilla/mux
	query []string // names of the accepted parameters
	// show returns what the page shows; nil: it has sent its answer.
	show func(ctx context.Context, v *visit) (*view, error)
	// act executes the action of a form; nil: the page has none. Only staff may act.
	act func(ctx context.Context, v *visit) (*outcome, error)
}

// visit is a request of a person who has signed in.
type visit struct {
	*http.Request

	writer  http.ResponseWriter
	user    *auth.StaffUser
	session *session
	query   *web.Query
	staff   *staff.Staff // for reading; an action uses command
	once    string       // of a form: identifies the action, so that a repetition changes nothing
	at      time.Time
}

// isStaff reports whether the person may act.
func (v *visit) isStaff() bool { return v.user.Role == principal.Staff }

// command returns the Staff for an action. part distinguishes the commands of one form; "" if there is one.
func (v *visit) command(part string) *staff.Staff {
	s := *v.staff
	s.Delivery = &staff.Delivery{
		Key: v.once, Source: "staff/" + v.user.ID.String() + "/console" + part, Canonical: []byte(v.PostForm.Encode()),
	}
	return &s
}

// view is a page to be shown.
type view struct {
	template string // name of the file without .html
	title    string
	status   int // 0: 200
	body     any
}

// outcome is what an action did. The browser is sent to a page that shows it, unless view is set.
type outcome struct {
	notice string
	undo   *undo
	to     string // path below /console; "": the page that the form was on
	view   *view  // is shown at once, such as a new key, which is shown once and stored nowhere
}

// maxForm is the maximum size of a form, in bytes.
const maxForm = 256 << 10

// Register adds the routes to router.
func (c *Console) Register(router *mux.Router) {
	router.Handle("/console/assets/{name}", http.HandlerFunc(c.asset)).Methods(http.MethodGet, http.MethodHead)
	router.Handle(signInPath, c.guard(http.HandlerFunc(c.signInPage))).Methods(http.MethodGet, http.MethodHead)
	router.Handle(signInPath, c.guard(http.HandlerFunc(c.signIn))).Methods(http.MethodPost)
	router.Handle("/console/sign-out", c.guard(http.HandlerFunc(c.signOut))).Methods(http.MethodPost)
	for _, p := range c.pages() {
		router.Handle("/console"+p.path, c.guard(c.serve(&p))).Methods(http.MethodGet, http.MethodHead)
		if p.act != nil {
			router.Handle("/console"+p.path, c.guard(c.execute(&p))).Methods(http.MethodPost)
		}
	}
}

// pages returns all pages.
func (c *Console) pages() []page {
	return slices.Concat(
		c.queuePages(),
		c.commentPages(),
		c.novelPages(),
		c.authorPages(),
		c.historyPages(),
		c.partnerPages(),
		c.systemPages(),
	)
}

// redirect is an error that sends the browser to a path below /console.
type redirect string

func (r redirect) Error() string { return "see " + string(r) }

// guard sets the headers of all answers, and refuses forms of other sites.
func (c *Console) guard(next http.Handler) http.Handler {
	checked := c.protect.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
			"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm) // also if it is refused: a refusal reads where the form came from
		ctx, cancel := c.Kit.WithTimeout(r.Context())
		defer cancel()
		checked.ServeHTTP(w, r.WithContext(ctx))
	})
}

// visit finds the session of a request. Without one it sends the browser to the sign-in, and returns nil.
func (c *Console) visit(w http.ResponseWriter, r *http.Request, names []string) *visit {
	s, err := c.sessions.find(r.Context(), r, c.Kit.Now())
	if err == nil && s == nil {
		to := "/sign-in"
		if r.Method == http.MethodGet && r.URL.Path != "/console" {
			to += "?to=" + url.QueryEscape(strings.TrimPrefix(r.URL.RequestURI(), "/console"))
		}
		c.lead(w, r, to)
		return nil
	}
	v := &visit{Request: r, writer: w, at: c.Kit.Now()}
	if err == nil {
		v.session, v.user = s, &s.user
		v.staff = &staff.Staff{Pool: c.Pool, Actor: "staff:" + s.user.Name, Now: c.Kit.Now}
		v.query, err = web.ReadStrictQuery(r.URL, names...)
	}
	if err != nil {
		c.refuse(w, r, v, err)
		return nil
	}
	return v
}

// serve shows a page.
func (c *Console) serve(p *page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r, p.query)
		if v == nil {
			return
		}
		shown, err := p.show(r.Context(), v)
		if to, ok := err.(redirect); ok { //nolint:errorlint // no page wraps it
			c.lead(w, r, string(to))
			return
		}
		if shown != nil && err == nil && !v.isStaff() {
			// Over the API auditors read nothing without an entry, either.
			_, _, err = c.beginRead(r.Context(), v, p.path)
		}
		if shown != nil || err != nil {
			c.send(v, shown, err)
		}
	})
}

// execute executes the action of a form.
func (c *Console) execute(p *page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r, p.query)
		if v == nil {
			return
		}
		done, err := c.action(r.Context(), p, v)
		switch {
		case err != nil:
			refused := c.Kit.Report(r, err)
			if back := local(r.PostFormValue("back")); back != "" && !refused.Code.Retryable() && v.isStaff() {
				c.leave(r.Context(), v, &outcome{to: back, notice: sentence(refused)}, true)
				return
			}
			c.refuse(w, r, v, refused)
		case done.view != nil:
			c.send(v, done.view, nil)
		default:
			if done.to == "" {
				done.to = local(r.PostFormValue("back"))
			}
			c.leave(r.Context(), v, done, false)
		}
	})
}

// action reads a form and executes its action.
func (c *Console) action(ctx context.Context, p *page, v *visit) (*outcome, error) {
	if !v.isStaff() {
		return nil, problem.New(problem.CodeForbidden, "Auditors see everything here, and change nothing.")
	}
	if err := v.ParseForm(); err != nil {
		return nil, problem.InvalidRequest().WithDetail("The form cannot be read: it is broken, or has more than 256 KiB.")
	}
	for name, values := range v.PostForm {
		if slices.ContainsFunc(values, func(text string) bool { return !web.IsText(text) }) {
			return nil, problem.InvalidField(name, "must be valid UTF-8 without the character NUL")
		}
	}
	id, ok := web.ParseID(v.PostForm.Get("once"))
	if !ok {
		return nil, problem.InvalidRequest().WithDetail("The form lacks its identifier. Load the page again.")
	}
	v.once = id.String()
	v.PostForm.Del("once")
	return p.act(ctx, v)
}

// leave remembers the outcome of an action, and sends the browser to a page that shows it. The action may have taken
// all time of the request.
func (c *Console) leave(ctx context.Context, v *visit, done *outcome, failed bool) {
	ctx, cancel := c.Kit.WithTimeout(ctx)
	defer cancel()
	if done.undo != nil {
		done.undo.ID, _ = web.ParseID(v.once)
		done.undo.Label = pages.WithoutBidi(done.undo.Label)
	}
	if done.notice != "" || done.undo != nil {
		said := notice{Text: pages.WithoutBidi(done.notice), Failed: failed}
		if err := c.sessions.remember(ctx, v.session, said, done.undo); err != nil {
			c.Kit.Logger.WarnContext(ctx, "the outcome of an action is not shown", slog.Any("error", err))
		}
	}
	c.lead(v.writer, v.Request, done.to)
}

// lead sends the browser to a path below /console. One that the browser has sent has passed local.
func (c *Console) lead(w http.ResponseWriter, r *http.Request, path string) {
	http.Redirect(w, r, c.Base+"/console"+path, http.StatusSeeOther) //nolint:gosec // see above
}

// dots are a segment with which a path leaves the console. Browsers resolve it escaped, too.
var dots = regexp.MustCompile(`(?i)/(\.|%2e){2}(/|$)`)

// local returns a path below /console that a form has sent; "" for anything else.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Fragment != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") || dots.MatchString(u.EscapedPath()) {
		return ""
	}
	return path
}

// selected reads the values of a field of a form as different ids, at least one and at most a number of them.
func selected(v *visit, field string, most int) ([]uuid.UUID, error) {
	var list []uuid.UUID
	for _, text := range v.PostForm[field] {
		id, ok := web.ParseID(text)
		if !ok {
			return nil, problem.InvalidField(field, "must be a UUID")
		}
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	switch {
	case len(list) == 0:
		return nil, problem.InvalidRequest().WithDetail("Nothing is selected.")
	case len(list) > most:
		return nil, problem.InvalidRequest().WithDetail(fmt.Sprintf("Select at most %d.", most))
	}
	return list, nil
}

// selectedOne reads the one id of a field of a form.
func selectedOne(v *visit, field string) (uuid.UUID, error) {
	list, err := selected(v, field, 1)
	if err != nil {
		return uuid.Nil, err
	}
	return list[0], nil
}

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS
