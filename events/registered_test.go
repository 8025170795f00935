package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/events"
)

// TestEveryEventIsRegistered reads the source: an event struct that is missing in the registry could be appended and
// never decoded.
func TestEveryEventIsRegistered(t *testing.T) {
	t.Parallel()
	sealed, named := declaredEvents(t)
	if len(sealed) == 0 {
		t.Fatal("found no event in the source")
	}
	slices.Sort(sealed)
	var structs, names []string
	for receiver, name := range named {
		structs, names = append(structs, receiver), append(names, name)
	}
	slices.Sort(structs)
	if diff := cmp.Diff(sealed, structs); diff != "" {
		t.Errorf("structs (-with isEvent() +with a literal Type()):\n%s", diff)
	}
	registered := events.Types()
	slices.Sort(names)
	slices.Sort(registered)
	if diff := cmp.Diff(names, registered); diff != "" {
		t.Errorf("types (-declared +registered):\n%s", diff)
	}
	form := regexp.MustCompile(`^[a-z]+\.[a-z_]+\.v[1-9][0-9]*$`)
	for _, name := range names {
		if !form.MatchString(name) {
			t.Errorf("%q is not of the form stream.what_happened.v1", name)
		}
	}
}

// declaredEvents returns the receivers of the methods sealed, and the results of the methods Type by receiver.
func declaredEvents(t *testing.T) (sealed []string, named map[string]string) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named = map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			method, ok := declaration.(*ast.FuncDecl)
			if !ok || method.Recv == nil {
				continue
			}
			receiver, ok := method.Recv.List[0].Type.(*ast.Ident)
			if !ok {
				continue
			}
			switch method.Name.Name {
			case "isEvent":
				sealed = append(sealed, receiver.Name)
			case "Type":
				named[receiver.Name] = returnedLiteral(t, method)
			}
		}
	}
	return sealed, named
}

func returnedLiteral(t *testing.T, method *ast.FuncDecl) string {
	t.Helper()
	if len(method.Body.List) == 1 {
		if statement, ok := method.Body.List[0].(*ast.ReturnStmt); ok && len(statement.Results) == 1 {
			if literal, ok := statement.Results[0].(*ast.BasicLit); ok {
				name, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				return name
			}
		}
	}
	t.Fatal("a method Type returns something else than one literal")
	return ""
}
