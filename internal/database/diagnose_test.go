package database_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// TestDiagnose: each check finds its problem, and reports no other.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	few := fmt.Sprintf("few_%d", time.Now().UnixNano())
	pool := openGeneral(t, url)
	testdb.Exec(t, pool, `CREATE ROLE `+few+` LOGIN CONNECTION LIMIT 5`)
	t.Cleanup(func() {
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), `DROP ROLE `+few); err != nil {
			t.Error(err)
		}
	})
	empty, noSchemas, noFunction := testdb.NewEmpty(t), testdb.NewEmpty(t), testdb.NewEmpty(t)
	grant := func(url, statement string) { testdb.Exec(t, testdb.Connect(t, url), statement) }
	grant(noFunction, `GRANT CREATE ON SCHEMA public TO `+few+`;
		REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	grant(noFunction, `DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO `+few+`', current_database()); END $$`)
	grant(noSchemas, `GRANT CREATE ON SCHEMA public TO `+few)
	for name, c := range map[string]struct {
		url    string
		ahead  time.Duration // of the clock here
		check  string
		status database.Status
		found  string
	}{
		"no durability":      {url, 0, "server", database.Fail, "fsync is off"},
		"all rights":         {url, 0, "rights", database.OK, ""},
		"one's own sessions": {url, 0, "sessions", database.OK, ""},
		"the same time":      {url, 0, "clock", database.OK, ""},
		"another time":       {url, -10 * time.Second, "clock", database.Warn, "10s ahead"},
		"a very other time":  {url, 5 * time.Minute, "clock", database.Fail, "5m0s behind"},
		"many connections":   {url, 0, "connections", database.OK, "of 800 are used"},
		"few connections":    {url + "&user=" + few, 0, "connections", database.Warn, "of 5 are used"},
		"no rights":          {empty + "&user=" + few, 0, "rights", database.Fail, "GRANT CREATE ON SCHEMA public"},
		"no schemas":         {noSchemas + "&user=" + few, 0, "rights", database.Fail, "GRANT CREATE ON DATABASE"},
		"no function":        {noFunction + "&user=" + few, 0, "rights", database.Fail, "may not call pg_control_system()"},
		"another's tables":   {url + "&user=" + few, 0, "rights", database.Fail, "does not own the tables"},
		"nobody there": {
			"postgres://nobody@127.0.0.1:1/nothing?connect_timeout=2", 0, "connect", database.Fail,
			"failed to connect to `user=nobody database=nothing`: 127.0.0.1:1 (127.0.0.1): dial error: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := func() time.Time { return time.Now().Add(c.ahead) }
			for _, f := range database.Diagnose(t.Context(), openGeneral(t, c.url), now) {
				if (f.Status == database.OK) != (f.Advice == "") {
					t.Errorf("%s: %s, advice %q", f.Check, f.Status, f.Advice)
				}
				if f.Check != c.check {
					continue
				}
				if f.Status != c.status || !strings.Contains(f.Found, c.found) || strings.Contains(f.Found, "\n") {
					t.Errorf("%s: %s, %s; want %s, %s", f.Check, f.Status, f.Found, c.status, c.found)
				}
				return
			}
			t.Errorf("there is no check %s", c.check)
		})
	}
}

// TestDiagnoseStandbys: a synchronous standby for which commits would wait in vain fails.
func TestDiagnoseStandbys(t *testing.T) {
	t.Parallel()
	url := testdb.NewServer(t, nil)
	conn, pool := testdb.Connect(t, url), openGeneral(t, url)
	for names, want := range map[string]string{
		"": "", "s1": "is s1: 0 of 1 connected", "ANY 2 (s1, s2, s3)": "is ANY 2 (s1, s2, s3): 0 of 2 connected",
	} {
		testdb.Exec(t, conn, fmt.Sprintf(`ALTER SYSTEM SET synchronous_standby_names = '%s'`, names))
		testdb.Exec(t, conn, `SELECT pg_reload_conf()`)
		testdb.Eventually(t, "the setting is "+names, func() bool {
			return testdb.Value[string](t, pool, `SHOW synchronous_standby_names`) == names
		})
		got := ""
		for _, f := range database.Diagnose(t.Context(), pool, time.Now) {
			if f.Check == "standby" && f.Status == database.Fail {
				got = f.Found
			}
		}
		if (want == "") != (got == "") || !strings.HasSuffix(got, want) {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}

// TestErrorText: the attempts to connect are on one line, each once, and without a refusal of TLS before another
// attempt at the same address.
func TestErrorText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"boom":         "boom",
		"one\ntwo":     "one\ntwo",
		"open: `x`: a": "open: `x`: a",
		"open: `x`:\n\th:1 (h): dial error: gone\n\th:1 (h): dial error: gone": "open: `x`: h:1 (h): dial error: gone",
		"`x`:\n\th: tls error: server refused TLS connection\n\th: failed SASL auth: wrong password": "`x`: " +
			"h: failed SASL auth: wrong password",
		"`x`:\n\tg: tls error: server refused TLS connection\n\th: tls error: server refused TLS connection": "`x`: " +
			"g: tls error: server refused TLS connection; h: tls error: server refused TLS connection",
		"`x`:\n\thostname resolving error: lookup h: no such host\n\tlookup h: no such host": "`x`: hostname resolving " +
			"error: lookup h: no such host",
	} {
		if got := database.ErrorText(errors.New(text)); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
