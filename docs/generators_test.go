//go:build generators

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"novelgate/docs"
)

// TestGenerators: generators make clients from openapi.yaml as it is, which compile, and the linter that most API
// portals use has no complaint.
func TestGenerators(t *testing.T) {
	t.Parallel()
	for name, commands := range map[string]string{
		"oapi-codegen": `go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -generate types,client -package api -o api.go openapi.yaml
			go mod init generated && go mod tidy && go vet ./...`,
		"ogen": `printf 'generator: {ignore_not_implemented: [all]}' >ogen.yml
			go run github.com/ogen-go/ogen/cmd/ogen@v1.24.0 --config ogen.yml --target api --package api openapi.yaml
			go mod init generated && go mod tidy && go vet ./...`,
		"openapi-typescript": `npm install --silent openapi-typescript@7.13.0 typescript@5.9.3
			npx --no openapi-typescript openapi.yaml -o api.ts && npx --no -- tsc --noEmit --strict --target es2022 api.ts`,
		"redocly": `npx --yes @redocly/cli@2.77.0 lint --format json openapi.yaml >said || { cat said; exit 1; }
			grep -q '"warnings": 0' said || { cat said; exit 1; }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "openapi.yaml"), docs.OpenAPI, 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "bash", "-euc", commands)
			command.Dir, command.Env = dir, append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
			if said, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
		})
	}
}
