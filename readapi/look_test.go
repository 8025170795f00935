//go:build look

package readapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"golang.org/x/net/websocket"

	"novelgate/events"
	"novelgate/readapi/pages"
)

// overflow is the number of pixels by which a page is wider than its window.
const overflow = `document.documentElement.scrollWidth - window.innerWidth`

// spilled counts comments and headings that are wider than the column.
const spilled = `[...document.querySelectorAll('.post, h1, .text, .book')].filter(e => {
	const r = e.getBoundingClientRect(); return r.right > window.innerWidth + 1 || r.left < -1 }).length`

// targetOnTop is the distance of the linked comment from the upper edge of the window.
const targetOnTop = `(document.querySelector(':target') || document.body).getBoundingClientRect().top`

// faint counts texts whose contrast is below 4.5 to 1 (WCAG 2.2, 1.4.3), against the nearest background behind them.
const faint = `(() => {
	const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
	const lum = c => { const [r, g, b] = c.map(v => {
		v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 });
		return .2126*r + .7152*g + .0722*b };
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = rgb(getComputedStyle(e).backgroundColor);
			if (c.length == 3 || c[3] > 0) return c }
		return [255, 255, 255] };
	const hasText = e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
	return [...document.querySelectorAll('body *')].filter(hasText).filter(e => {
		const a = lum(rgb(getComputedStyle(e).color)), b = lum(behind(e));
		return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5 }).length })()`

// TestLook opens the pages in a browser, in desktop and phone windows, light and dark, and checks the layout, the
// contrast and the content security policy. It saves screenshots in the directory NOVELGATE_LOOK.
func TestLook(t *testing.T) {
	w := newWorld(t)
	ordinary := bigDiscussion(t, w)
	w.novel(t, "Ordinary", func(e *events.NovelCreated) {
		e.Author, e.Synopsis, e.Genres, e.ReadingStatus, e.Language = "Ida Verne",
			strings.Repeat("A boy finds a watch. ", 30), []string{"Fantasy", "Mystery"}, "ongoing", "en"
	})
	hostileNovel := w.novel(t, hostile[0]+hostile[7], func(e *events.NovelCreated) {
		e.Slug, e.Author, e.Synopsis, e.Genres, e.Language = "hostile", strings.Repeat("A", 120), hostile[len(hostileTitles)],
			[]string{strings.Repeat("W", 50), "<i>"}, "\"><script>"
		e.CoverURL = "https://covers.example/a.jpg"
	})
	w.novel(t, strings.Repeat("W", 300), nil)
	var last uuid.UUID
	for i, content := range hostile {
		e := events.PostImported{
			Comment: &events.Comment{ExternalUUID: fmt.Sprint(i), Username: username(content), Content: content},
		}
		if i%2 == 1 {
			e.ParentPostID = &last
		}
		last = w.comment(t, hostileNovel, e)
	}
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = $1`, ordinary[31])

	deep := ordinary[len(ordinary)-1].String()
	openBrowser(t).look(t, serve(t, w, pages.Site{}), map[string]string{
		"start": "/", "no-page": "/novels/a/b/c", "catalogue": "/novels", "novel": "/novels/ordinary",
		"discussion": "/novels/a/discussion", "link": "/novels/a/discussion?post=" + deep + "#post-" + deep,
		"hostile-novel": "/novels/hostile", "hostile-discussion": "/novels/hostile/discussion?sort=oldest",
		"not-found": "/novels/unknown", "search": "/novels?q=nothing",
	})
}

// look opens pages by name in windows of three sizes, light and dark, checks them and saves pictures.
func (b *browser) look(t *testing.T, base string, pages map[string]string) {
	t.Helper()
	for name, path := range pages {
		for window, size := range map[string][2]int{"desktop": {1280, 900}, "phone": {390, 844}, "narrow": {320, 640}} {
			for _, scheme := range []string{"light", "dark"} {
				b.open(t, base+path, size[0], size[1], scheme)
				if wide := b.evaluate(t, overflow); wide > 0 {
					t.Errorf("%s, %s: the page is %v pixels wider than the window", name, window, wide)
				}
				if n := b.evaluate(t, spilled); n > 0 {
					t.Errorf("%s, %s: %v elements reach out of the window", name, window, n)
				}
				if n := b.evaluate(t, faint); n > 0 {
					t.Errorf("%s, %s: %v texts are too faint", name, scheme, n)
				}
				linked := strings.Contains(path, "#post-")
				if top := b.evaluate(t, targetOnTop); linked && (top < 0 || top > float64(size[1])/2) {
					t.Errorf("%s, %s: the comment begins at %v", name, window, top)
				}
				save(t, name+"-"+window+"-"+scheme+".png", b.screenshot(t))
				for _, complaint := range b.log {
					if !strings.HasPrefix(name, "no") || !strings.Contains(complaint, "404") {
						t.Errorf("%s, %s: %s", name, window, complaint)
					}
				}
			}
		}
	}
}

func save(t *testing.T, name string, picture []byte) {
	t.Helper()
	dir := os.Getenv("NOVELGATE_LOOK")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// browser is a page of a headless Chromium, driven by the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol).
type browser struct {
	conn    *websocket.Conn
	session string
	id      int
	log     []string // errors and warnings of the page
	loaded  bool
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
		"--remote-allow-origins=*",
		"--hide-scrollbars", "--user-data-dir="+t.TempDir(), "about:blank")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("this needs chromium: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()                     // it was killed
		time.Sleep(500 * time.Millisecond) // its children leave the directory
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return attach(t, address)
		}
	}
	t.Fatal("chromium does not say where it listens")
	return nil
}

func attach(t *testing.T, address string) *browser {
	t.Helper()
	conn, err := websocket.Dial(address, "", "http://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	conn.MaxPayloadBytes = 64 << 20
	t.Cleanup(func() { _ = conn.Close() })
	b := &browser{conn: conn}
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Log", "Runtime", "Audits"} {
		b.call(t, domain+".enable", map[string]any{}, nil)
	}
	return b
}

type devToolsMessage struct {
	ID     int            `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

// call runs a command and decodes its result, unless that is nil.
func (b *browser) call(t *testing.T, method string, params map[string]any, result any) {
	t.Helper()
	b.id++
	command := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	encoded, err := json.Marshal(command)
	if err == nil {
		err = websocket.Message.Send(b.conn, string(encoded))
	}
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	want := b.id
	for {
		m := b.receive(t)
		if m.ID != want {
			continue
		}
		if m.Error != nil {
			t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

// receive reads one message and records errors of the page.
func (b *browser) receive(t *testing.T) devToolsMessage {
	t.Helper()
	if err := b.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := websocket.Message.Receive(b.conn, &text); err != nil {
		t.Fatalf("listen to chromium: %v", err)
	}
	var m devToolsMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	switch m.Method {
	case "Page.loadEventFired":
		b.loaded = true
	case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Audits.issueAdded":
		// Covers cannot be loaded without a network.
		if s := string(m.Params); !strings.Contains(s, "net::ERR_") {
			b.log = append(b.log, fmt.Sprintf("%s: %.600s", m.Method, s))
		}
	}
	return m
}

// open opens an address in a window and waits until it is loaded.
func (b *browser) open(t *testing.T, address string, width, height int, scheme string) {
	t.Helper()
	b.call(t, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call(t, "Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	for _, url := range []string{"about:blank", address} { // a change of the fragment alone would load nothing
		b.log, b.loaded = nil, false
		b.call(t, "Page.navigate", map[string]any{"url": url}, nil)
		for !b.loaded {
			b.receive(t)
		}
	}
}

// evaluate returns the value of an expression on the page.
func (b *browser) evaluate(t *testing.T, expression string) (value float64) {
	t.Helper()
	var result struct {
		Result struct {
			Value jsontext.Value `json:"value"`
		} `json:"result"`
		Exception jsontext.Value `json:"exceptionDetails"`
	}
	b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &result)
	if err := json.Unmarshal(result.Result.Value, &value); err != nil {
		t.Fatalf("%s is %s: %v\n%s", expression, result.Result.Value, err, result.Exception)
	}
	return value
}

// screenshot returns the window as a PNG file.
func (b *browser) screenshot(t *testing.T) []byte {
	t.Helper()
	var shot struct {
		Data []byte `json:"data"`
	}
	b.call(t, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	return shot.Data
}
