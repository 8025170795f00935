//go:build generators

package e2e_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"novelgate/docs"
	"novelgate/internal/testdb"
)

// The generators that docs/openapi.yaml is written for. Those of npm are in generators/package.json.
const (
	oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
	ogen        = "github.com/ogen-go/ogen/cmd/ogen@v1.24.0"
	oasdiff     = "github.com/oasdiff/oasdiff@v1.36.0"
)

// workshop is a copy of the directory generators with docs/openapi.yaml.
type workshop string

func newWorkshop(t *testing.T) workshop {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("generators")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "openapi.yaml"), docs.OpenAPI, 0o600); err != nil {
		t.Fatal(err)
	}
	return workshop(dir)
}

// run runs a command in the workshop and returns its output. It fails the test if the command fails.
func (w workshop) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = string(w)
	cmd.Env = append(os.Environ(), "OASDIFF_NO_TELEMETRY=1", "REDOCLY_TELEMETRY=off",
		"REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said)
	}
	return string(said)
}

// compileTypeScript generates types and compiles the programs in TypeScript with them.
func (w workshop) compileTypeScript(t *testing.T) {
	t.Helper()
	w.run(t, "npm", "ci")
	w.run(t, "npx", "--no", "openapi-typescript", "openapi.yaml", "-o", "api.d.ts")
	w.run(t, "npx", "--no", "tsc")
}

// TestGeneratedClients generates a client with each generator from docs/openapi.yaml as it is, compiles a program that
// uses it, and runs the program against the service.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(t *testing.T, w workshop) (program []string){
		"oapi-codegen": func(t *testing.T, w workshop) []string {
			w.run(t, "mkdir", "oapicodegen/api")
			w.run(t, "go", "run", oapiCodegen, "-generate", "types,client", "-package", "api", "-o",
				"oapicodegen/api/api.gen.go", "openapi.yaml")
			w.run(t, "go", "vet", "./oapicodegen/...")
			w.run(t, "go", "build", "-o", "program", "./oapicodegen")
			return []string{"./program"}
		},
		"ogen": func(t *testing.T, w workshop) []string {
			w.run(t, "go", "run", ogen, "--config", "ogen.yml", "--target", "ogen/api", "--package", "api", "openapi.yaml")
			w.run(t, "go", "vet", "./ogen/...")
			w.run(t, "go", "build", "-o", "program", "./ogen")
			return []string{"./program"}
		},
		"openapi-typescript": func(t *testing.T, w workshop) []string {
			w.compileTypeScript(t)
			return []string{"node", "built/partner.js"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t)
			program := build(t, w)
			p := Shared(t).NewPartner(t)
			w.run(t, program[0], append(program[1:], p.Service.URL, p.APIKey, Unique("Generated"))...)
		})
	}
}

// TestGeneratedTypesInTheGuide runs the programs in TypeScript of docs/partner-clients.md: send.ts, whose first attempts fail,
// changes.ts, and webhook.ts, which takes a message of the service and no other.
func TestGeneratedTypesInTheGuide(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	w.compileTypeScript(t)
	s := Start(t, testdb.New(t), "--webhook-allow-cidr", "127.0.0.1/32")
	p := s.NewPartner(t)

	said := ""
	for _, address := range []string{s.through(t, cutAfterRequest, refuseWith(503), refuseWith(429)), s.URL} {
		said += w.run(t, "env", "NOVELGATE_URL="+address, "NOVELGATE_API_KEY="+p.APIKey, "node", "built/send.js")
	}
	words := strings.Fields(said) // created, postId and url of each answer
	if len(words) != 6 || words[0] != "false" || words[3] != "false" || words[1] != words[4] {
		t.Errorf("send.ts said\n%s", said)
	}

	s.Moderate(t, "reject", "The Clockmaker's Apprentice")
	testdb.Eventually(t, "changes.ts says that the novel was rejected", func() bool {
		said := w.run(t, "env", "NOVELGATE_URL="+s.URL, "NOVELGATE_API_KEY="+p.APIKey, "node", "built/changes.js")
		return strings.Contains(said, "novel.rejected")
	})

	port := strconv.Itoa(testdb.ReservePort(t))
	hook := p.NewWebhook(t, "http://127.0.0.1:"+port)
	for secret, want := range map[string]string{
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)): `"status":401`,
		hook.Secret: `"delivered":true`,
	} {
		endpoint := exec.CommandContext(t.Context(), "node", "built/webhook.js")
		endpoint.Dir = string(w)
		endpoint.Env = append(os.Environ(), "SECRET="+secret, "PORT="+port)
		if err := endpoint.Start(); err != nil {
			t.Fatal(err)
		}
		testdb.Eventually(t, "the endpoint answers with "+want, func() bool {
			return strings.Contains(string(s.Send(t, Request{
				Method: http.MethodPost, Path: "/api/integrations/webhooks/" + hook.WebhookID + "/test", Bearer: p.APIKey,
			}).Body), want)
		})
		if err := endpoint.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = endpoint.Wait() // it was killed
	}
}

// TestDescriptionHasNoLint runs the linter that most API portals use.
func TestDescriptionHasNoLint(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	w.run(t, "npm", "ci")
	if found := w.run(t, "npx", "--no", "redocly", "lint", "--format", "json", "openapi.yaml"); !strings.Contains(found,
		`"warnings": 0`) {
		t.Errorf("redocly lint:\n%s", found)
	}
}

// TestDescriptionIsShownByRedoc compares the script of /docs with the package.
func TestDescriptionIsShownByRedoc(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	w.run(t, "npm", "pack", "redoc@2.5.4")
	w.run(t, "tar", "-xzf", "redoc-2.5.4.tgz")
	packed, err := os.ReadFile("../../readapi/pages/assets/redoc.js.gz")
	if err == nil {
		err = os.WriteFile(filepath.Join(string(w), "redoc.js.gz"), packed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.run(t, "gzip", "-d", "redoc.js.gz")
	w.run(t, "cmp", "redoc.js", "package/bundles/redoc.standalone.js")
}

// TestDescriptionBreaksNothing compares docs/openapi.yaml with the description of the latest release.
func TestDescriptionBreaksNothing(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	w.run(t, "gzip", "-d", "released.yaml.gz")
	w.run(t, "go", "run", oasdiff, "breaking", "--fail-on", "ERR", "--flatten-allof", "released.yaml", "openapi.yaml")
}
