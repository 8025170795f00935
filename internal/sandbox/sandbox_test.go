package sandbox_test

import (
	"errors"
	"strings"
	"testing"

	"novelgate/internal/database"
	"novelgate/internal/sandbox"
)

// TestURL: the URL of a sandbox leads to its database on the same server, whatever form the URL has.
func TestURL(t *testing.T) {
	t.Parallel()
	for _, main := range []string{
		"postgres://ada@db.example.com:5433/novelgate?application_name=x",
		"postgres://ada@db.example.com:5433/?dbname=novelgate",
		"host=db.example.com port=5433 user=ada dbname=novelgate",
	} {
		got, err := sandbox.URL(main, "k3f9")
		if err != nil {
			t.Fatal(err)
		}
		config, err := database.ParseConfig(got, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := config.ConnConfig
		if c.Database != "novelgate_sandbox_k3f9" || c.Host != "db.example.com" || c.Port != 5433 || c.User != "ada" {
			t.Errorf("%s: %s at %s:%d as %s", main, c.Database, c.Host, c.Port, c.User)
		}
		if name := sandbox.Of(c.Database); name != "k3f9" {
			t.Errorf("Of(%s) is %q", c.Database, name)
		}
		if _, err := sandbox.URL(got, "k3f9"); !errors.Is(err, sandbox.ErrNested) {
			t.Errorf("a sandbox in a sandbox: %v", err)
		}
	}
	for _, name := range []string{"", "k3f", "k3f9a", "K3F9", `k3f"`} {
		if _, err := sandbox.URL("dbname=novelgate", name); !errors.Is(err, sandbox.ErrName) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := sandbox.URL("dbname="+strings.Repeat("n", 47), "k3f9"); err == nil {
		t.Error("PostgreSQL would cut the name")
	}
	if sandbox.Of("novelgate") != "" || sandbox.Of("novelgate_sandbox_k3f9_2") != "" {
		t.Error("another database counts as a sandbox")
	}
}
