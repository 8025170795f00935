package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/events"
	"novelgate/internal/problem"
	"novelgate/internal/web"
	"novelgate/readapi/pages"
)

// document is the data of the layout.
type document struct {
	Title   string
	User    string // "" on the sign-in
	IsStaff bool
	Section string // first part of the path, which the menu marks
	Counts  counts
	Notice  notice
	Undo    *undo
	Back    string // path of this page below /console, to which forms return
	Body    any
}

// parse returns the layout combined with each kind of page, by the name of its file without .html.
func (c *Console) parse() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"at":       func(path string) string { return c.Base + "/console" + path },
		"asset":    func(name string) string { return c.Base + "/console/assets/" + assets[name].name },
		"novel":    c.Addresses.NovelPath,
		"once":     func() string { return uuid.NewString() },
		"when":     func(t time.Time) when { return when{t, c.Kit.Now()} },
		"count":    count,
		"dict":     dict,
		"list":     func(items ...any) []any { return items },
		"short":    func(id uuid.UUID) string { return id.String()[:8] },
		"escape":   segment,
		"personal": personal,
		"add":      func(a, b int) int { return a + b },
	}).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	parsed := map[string]*template.Template{}
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, file := range files {
		if name := strings.TrimSuffix(file.Name(), ".html"); name != "layout" && name != "parts" {
			parsed[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+file.Name()))
		}
	}
	return parsed
}

// personal returns the text of the personal part of an event; "" if it has none.
func personal(part any) string {
	switch p := part.(type) {
	case *events.Comment:
		if p != nil {
			return p.Content
		}
	case *events.Report:
		if p != nil {
			return p.Detail
		}
	}
	return ""
}

// dict returns a map of names and values, with which a template calls another.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		m[fmt.Sprint(pair[0])] = pair[1]
	}
	return m
}

// count is a number with its noun, such as "3 comments".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// when is a time, beside how long ago it was.
type when struct{ at, now time.Time }

func (w when) Machine() string { return w.at.UTC().Format(time.RFC3339) }
func (w when) Exact() string   { return w.at.UTC().Format("2 January 2006, 15:04:05 UTC") }

// Human is the time in few words.
func (w when) Human() string {
	past := w.now.Sub(w.at)
	ago := " ago"
	if past < 0 {
		past, ago = -past, " from now"
	}
	switch minutes := int(past.Minutes()); {
	case minutes < 1:
		return "just now"
	case minutes < 60:
		return fmt.Sprintf("%d min%s", minutes, ago)
	case minutes < 48*60:
		return fmt.Sprintf("%d h%s", minutes/60, ago)
	case minutes < 60*24*60:
		return fmt.Sprintf("%d days%s", minutes/60/24, ago)
	default:
		return w.at.UTC().Format("2 Jan 2006")
	}
}

// send shows a page, or why it cannot be shown.
func (c *Console) send(v *visit, shown *view, err error) {
	if err != nil {
		c.refuse(v.writer, v.Request, v, err)
		return
	}
	c.render(v.writer, v.Request, v, shown)
}

// sentence is what an error says to a person.
func sentence(p *problem.Error) string {
	text := p.Detail
	if len(p.Fields) > 1 { // the detail has the first
		text = ""
		for _, field := range p.Fields {
			text += field.Field + ": " + field.Message + ". "
		}
	}
	return strings.TrimSpace(text)
}

// refuse shows why a request failed.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	p := c.Kit.Report(r, err)
	if p.Code.Retryable() {
		w.Header().Set("Retry-After", "1")
	}
	if v != nil && v.session == nil {
		v = nil
	}
	c.render(w, r, v, &view{template: "problem", title: p.Code.Title(), status: p.Code.Status(), body: map[string]any{
		"Text": sentence(p), "RequestID": web.RequestID(r.Context()), "Back": local(r.PostFormValue("back")),
	}})
}

// render sends a page. v is nil for a visitor who has not signed in.
func (c *Console) render(w http.ResponseWriter, r *http.Request, v *visit, shown *view) {
	d := &document{Title: pages.WithoutBidi(shown.title), Body: shown.body}
	if v != nil {
		d.User, d.IsStaff, d.Notice, d.Undo = v.user.Name, v.isStaff(), v.session.notice, v.session.undo
		d.Back = strings.TrimPrefix(r.URL.RequestURI(), "/console")
		if r.Method == http.MethodPost {
			d.Back = local(r.PostFormValue("back"))
		}
		d.Section, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/console"), "/"), "/")
		var err error
		if d.Counts, err = c.counts(r.Context()); err != nil {
			c.Kit.Logger.WarnContext(r.Context(), "the queues are not counted", slog.Any("error", err))
		}
		if d.Notice.Text != "" && r.Method == http.MethodGet {
			if err := c.sessions.forget(r.Context(), v.session, "notice"); err != nil {
				c.Kit.Logger.WarnContext(r.Context(), "a notice will be shown again", slog.Any("error", err))
			}
		}
	}
	var page bytes.Buffer
	if err := c.templates[shown.template].Execute(&page, d); err != nil {
		c.Kit.Fail(w, r, fmt.Errorf("render %s: %w", shown.template, err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(cmp.Or(shown.status, http.StatusOK))
	_, _ = w.Write(pages.WithoutControls(page.Bytes())) // an error means that the client disconnected
}

// confirm asks once more before an action that cannot be undone. It returns nil when the form has the answer.
func confirm(v *visit, question, button string) *outcome {
	if v.PostForm.Get("confirmed") == "yes" {
		return nil
	}
	return &outcome{view: &view{template: "confirm", title: "Are you sure?", body: map[string]any{
		"Question": pages.WithoutBidi(question), "Button": button, "Path": strings.TrimPrefix(v.URL.RequestURI(), "/console"),
		"Fields": v.PostForm,
	}}}
}

// counts are the lengths of the queues.
type counts struct{ Reported, Novels int }

// countsSQL stops at a thousand of each.
const countsSQL = `SELECT (SELECT count(*) FROM (SELECT FROM reported_posts LIMIT 1000) AS r),
       (SELECT count(*) FROM (SELECT FROM title_lookup WHERE state = 'pending' LIMIT 1000) AS n)`

func (c *Console) counts(ctx context.Context) (n counts, err error) {
	if err = c.Pool.QueryRow(ctx, countsSQL).Scan(&n.Reported, &n.Novels); err != nil {
		err = fmt.Errorf("count the queues: %w", err)
	}
	return n, err
}

// asset is a file that browsers keep: its name has a digest of its content.
type asset struct {
	name    string
	content []byte
}

// assets are the embedded files. The style sheet begins with that of the readers' pages.
var assets = func() map[string]asset {
	loaded := map[string]asset{}
	for _, name := range []string{"console.css", "console.js", "icon.svg"} {
		content, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		if path.Ext(name) == ".css" {
			content = append(slices.Clone(pages.Style()), content...)
		}
		digest := sha256.Sum256(content)
		stem, extension, _ := strings.Cut(name, ".")
		loaded[name] = asset{stem + "." + hex.EncodeToString(digest[:6]) + "." + extension, content}
	}
	return loaded
}()

func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	name := mux.Vars(r)["name"]
	for _, a := range assets {
		if a.name == name {
			w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(a.content) // an error means that the client disconnected
			return
		}
	}
	c.Kit.NotFound(w, r)
}
