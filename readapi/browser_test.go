//go:build look

package readapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/websocket"
)

// browser is a page of a headless Chromium, driven by the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol).
type browser struct {
	conn    *websocket.Conn
	session string
	id      int
	log     []string // what the page has complained about since it was opened
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

// receive reads one message and keeps what it says about the page.
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
		// Without a network, covers are not reached; that is no fault of the page.
		if s := string(m.Params); !strings.Contains(s, "net::ERR_") {
			b.log = append(b.log, fmt.Sprintf("%s: %.600s", m.Method, s))
		}
	}
	return m
}

// open shows an address to a window and waits until it is loaded.
func (b *browser) open(t *testing.T, address string, width, height int, scheme string) {
	t.Helper()
	b.call(t, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call(t, "Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	for _, url := range []string{"about:blank", address} { // another fragment alone would load nothing
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
