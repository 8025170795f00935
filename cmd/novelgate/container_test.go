package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v4"
)

// TestContainerFiles: compose.yaml has the form that its specification demands, and the service runs with settings that
// it knows, and on the volume that the image has.
func TestContainerFiles(t *testing.T) {
	t.Parallel()
	const dir = "../../deploy/container/"
	text, err := os.ReadFile(dir + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	var compose struct {
		Services map[string]struct {
			Build       struct{ Context, Dockerfile string }
			Environment map[string]string
			Volumes     []string
			Healthcheck struct{ Test []string }
		}
	}
	for _, into := range []any{&document, &compose} {
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	if err := schema.Validate(document); err != nil {
		t.Error(err)
	}
	service := compose.Services["novelgate"]
	file, err := os.ReadFile(path.Join(dir, service.Build.Context, service.Build.Dockerfile))
	if err != nil {
		t.Fatal(err)
	}

	parser, err := kong.New(&program{}, kong.Vars{"data_dir": "", "version": ""})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"PATH": true, "PGPASSWORD": true}
	for _, node := range parser.Model.Children {
		for _, flag := range node.Flags {
			for _, variable := range flag.Envs {
				known[variable] = known[variable] || node.Name == "serve"
			}
		}
	}
	used := regexp.MustCompile(`(?m)^(?:ENV| {3}) (\w+)=`).FindAllStringSubmatch(string(file), -1)
	for name := range service.Environment {
		used = append(used, []string{"", name})
	}
	if len(used) < 2 {
		t.Fatalf("variables: %q", used)
	}
	for _, name := range used {
		if !known[name[1]] {
			t.Errorf("serve has no variable %s", name[1])
		}
	}
	volume := strings.TrimPrefix(service.Volumes[0], "signer:")
	if !strings.Contains(string(file), "\nVOLUME "+volume+"\n") {
		t.Errorf("the image has no volume %s", volume)
	}
	test := service.Healthcheck.Test
	if !strings.Contains(string(file), ` CMD ["`+strings.Join(test[1:], `", "`)+`"]`) {
		t.Errorf("the image has not the health check %q", test)
	}
}
