package e2e_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// variant is a database as an operator may have set it up, and the expected behaviour of a service on it.
// docs/operators.md has the same table. Package database tests which settings are refused.
type variant struct {
	// statements set up the database @DB and its owner @ROLE, who is not a superuser. Those that begin with "IN DB " run
	// in it.
	statements []string
	owner      string // if it is not @ROLE
	create     string // options of the database
	query      string // added to the URL
	pooled     string // mode of a pgbouncer in between, else there is none
	refused    string // message of a refused start; empty if the service works
	then       []string
	migrated   []string // statements of a superuser after the migration
}

const elsewhere = `novelgate: migrate: the tables are not in schema public but in "@ROLE": stop every replica, and let the owner run ` +
	"`DROP SCHEMA public; ALTER SCHEMA \"@ROLE\" RENAME TO public`"

// wantWaiting refuses events whose commit does not wait for the disk and for synchronous standbys.
const wantWaiting = `CREATE FUNCTION public.want_waiting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') <> 'on' THEN
        RAISE EXCEPTION 'synchronous_commit is %', current_setting('synchronous_commit');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER want_waiting AFTER INSERT ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.want_waiting()`

var fullAdvice = fmt.Sprintf("each replica of the service uses up to %d: raise max_connections, or the connection "+
	"limit of the role or the database; `novelgate doctor` counts connections, as a superuser also on a full server", database.Connections)

// variants are set up on one server, which demands TLS.
var variants = map[string]variant{
	"odd settings of role, database and URL; Turkish by ICU": {
		create: `LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' TEMPLATE template0`,
		query:  "sslmode=require&timezone=Asia/Kathmandu&datestyle=German&client_encoding=LATIN1",
		statements: []string{
			`IN DB CREATE SCHEMA elsewhere AUTHORIZATION @ROLE`, `IN DB CREATE SCHEMA AUTHORIZATION @ROLE`,
			`ALTER ROLE @ROLE SET search_path = elsewhere, public`, `ALTER ROLE @ROLE SET statement_timeout = '500ms'`,
			`ALTER ROLE @ROLE SET synchronous_commit = off`,
			`ALTER DATABASE @DB SET default_transaction_isolation = 'serializable'`,
		},
		migrated: []string{wantWaiting},
	},
	"settings of the database; commits that wait for the disk only": {
		query: "search_path=elsewhere",
		statements: []string{
			`IN DB CREATE SCHEMA elsewhere AUTHORIZATION @ROLE`, `ALTER ROLE @ROLE SET client_encoding = 'LATIN1'`,
			`ALTER DATABASE @DB SET synchronous_commit = local`,
		},
		migrated: []string{wantWaiting},
	},
	"pgbouncer in session mode": {pooled: "session"},
	"tables in a schema of the role": {
		statements: []string{
			`IN DB ALTER SCHEMA public RENAME TO @ROLE`, `IN DB CREATE SCHEMA public AUTHORIZATION @ROLE`,
			`IN DB ALTER SCHEMA @ROLE OWNER TO @ROLE`,
		},
		refused: elsewhere,
		then:    []string{`IN DB DROP SCHEMA public`, `IN DB ALTER SCHEMA @ROLE RENAME TO public`},
	},
	"SQL_ASCII": {
		create:  `ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0`,
		refused: `novelgate: check the database: the database does not store UTF8 but SQL_ASCII: use one that was created with ENCODING 'UTF8' TEMPLATE template0`,
	},
	"read-only": {
		statements: []string{`ALTER DATABASE @DB SET default_transaction_read_only = on`},
		refused:    `novelgate: check the database: the database is read-only: default_transaction_read_only is on for the server, the database or the role`,
	},
	"no right to make tables": {
		statements: []string{`GRANT CONNECT, CREATE ON DATABASE @DB TO @ROLE`},
		owner:      "postgres",
		refused: "novelgate: migrate: the role of the service lacks a right: `GRANT CREATE ON SCHEMA public TO " +
			"\"@ROLE\"`, or make it the owner of the database",
	},
	"no right to make schemas": {
		statements: []string{`IN DB GRANT CREATE ON SCHEMA public TO @ROLE`},
		owner:      "postgres",
		refused: "novelgate: migrate: the role of the service lacks a right: `GRANT CREATE ON DATABASE \"@DB\" TO " +
			"\"@ROLE\"`, or make it the owner of the database",
	},
	"four connections of the role": {
		statements: []string{`ALTER ROLE @ROLE CONNECTION LIMIT 4`},
		refused:    `novelgate: the database server has no connection left (too many connections for role "@ROLE"): ` + fullAdvice,
	},
	"TLS refused": {query: "sslmode=disable", refused: `no encryption (SQLSTATE 28000)`},
	"pgbouncer in transaction mode": {
		pooled:  "transaction",
		refused: `novelgate: check the database: a pooler lets connections share sessions of the database server: set it to session mode, or connect directly`,
	},
}

// TestServers starts the service on databases with various set-ups. It works in full, or refuses to start with a
// message of one sentence.
func TestServers(t *testing.T) {
	t.Parallel()
	address := fmt.Sprint("127.0.0.1:", testdb.ReservePort(t))
	h := startServer(t, map[string]string{
		"fsync": "off", "listen_addresses": "127.0.0.1", "port": strings.TrimPrefix(address, "127.0.0.1:"),
		"max_connections": "400", // for several services at a time
	})
	h.demandTLS(t)
	for i, name := range slices.Sorted(maps.Keys(variants)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.try(t, variants[name], fmt.Sprintf("v%d", i), address)
		})
	}
	t.Run("no connection left", func(t *testing.T) {
		t.Parallel()
		full := startServer(t, map[string]string{"max_connections": "6", "fsync": "off"})
		superuser := testdb.Connect(t, full.url())
		testdb.Exec(t, superuser, `CREATE ROLE plain LOGIN`)
		testdb.Eventually(t, "earlier connections are closed", func() bool {
			return len(backends(t, superuser, `datid IS NOT NULL`)) == 0
		})
		plain := inDatabase(t, full.url(), "novelgate", "plain").String()
		for range 2 { // as another replica holds; of the other four three are for superusers only
			testdb.Connect(t, plain)
		}
		wantRefusedStart(t, []string{"novelgate: the database server has no connection left (remaining connection slots " +
			"are reserved for non-replication superuser connections): " + fullAdvice},
			append(unsafe[:1:1], "--database-url", plain)...)
		for url, says := range map[string]string{slowly(plain): fullAdvice, slowly(full.url()): "of 6 are used"} {
			out := RunCLI(t, url, "doctor")
			if text := strings.Join(strings.Fields(out.Stdout), " "); !strings.Contains(text, says) { // it wraps lines
				t.Errorf("doctor: %d\n%s%s", out.Code, out.Stdout, out.Stderr)
			}
		}
	})
}

// demandTLS lets the server refuse connections by TCP without TLS.
func (s *server) demandTLS(t *testing.T) {
	t.Helper()
	owner := testdb.Must(os.Stat(filepath.Join(s.cluster(t), "PG_VERSION")))(t).Sys().(*syscall.Stat_t)
	private := testdb.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed := testdb.Must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	stored := testdb.Must(x509.MarshalPKCS8PrivateKey(private))(t)
	for name, content := range map[string][]byte{
		"server.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		"server.key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: stored}),
		"pg_hba.conf": []byte("local all all trust\nhostssl all all 127.0.0.1/32 trust\n"),
	} {
		path := filepath.Join(s.cluster(t), name)
		err := os.WriteFile(path, content, 0o600)
		if err = errors.Join(err, os.Chown(path, int(owner.Uid), int(owner.Gid))); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, s.url(), `ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the server speaks TLS", func() bool { return value[string](t, s.url(), `SHOW ssl`) == "on" })
}

// try sets a variant up and tests a service on it, which connects to an address.
func (s *server) try(t *testing.T, v variant, name, address string) {
	t.Helper()
	role := name + "_role"
	fill := strings.NewReplacer("@ROLE", role, "@DB", name).Replace
	execute(t, s.url(), `CREATE ROLE `+role+` LOGIN`,
		`CREATE DATABASE `+name+` OWNER `+cmp.Or(v.owner, role)+` `+v.create)
	within := inDatabase(t, s.url(), name, "").String()
	set := func(statements []string) {
		for _, statement := range statements {
			where := s.url()
			statement, inside := strings.CutPrefix(statement, "IN DB ")
			if inside {
				where = within
			}
			execute(t, where, fill(statement))
		}
	}
	u := inDatabase(t, s.url(), name, role)
	u.Host, u.RawQuery = address, v.query
	if v.pooled != "" {
		u.Host, u.RawQuery = startBouncer(t, v.pooled, address), "sslmode=disable"
	}
	service := slowly(u.String()) // a busy machine may take long to fork a process
	if v.then != nil {            // it has worked before
		MustCLI(t, service, "migrate")
	}
	set(v.statements)
	if v.refused != "" {
		wantRefusedStart(t, []string{fill(v.refused)}, append(unsafe[:1:1], "--database-url", service)...)
		if v.then == nil {
			return
		}
		set(v.then)
	}
	wantWorks(t, service, within, v)
}

// inDatabase is the URL with another database and, unless it is empty, another role.
func inDatabase(t *testing.T, server, name, role string) *url.URL {
	t.Helper()
	u := testdb.Must(url.Parse(server))(t)
	u.Path = "/" + name
	if role != "" {
		u.User = url.User(role)
		query := u.Query()
		query.Del("user")
		u.RawQuery = query.Encode()
	}
	return u
}

// wantWorks imports a comment, shows it, projects it, rebuilds its projection and verifies everything. observer is a
// URL of a superuser.
func wantWorks(t *testing.T, databaseURL, observer string, v variant) {
	t.Helper()
	const title, words = "Größe 漢字 ı İ", "Größe 漢字 ı İ: ß, 🂡"
	MustCLI(t, databaseURL, "migrate")
	execute(t, observer, v.migrated...)
	p := newPartner(t, databaseURL) // before the service has taken its connections
	r := serve(t, databaseURL, append(unsafe[:1:1], "--request-timeout", "20s")...)
	for i, spelling := range []string{title, title, "GRÖSSE 漢字 ı i̇"} { // another case and composition
		body := comment(spelling, "reader-1", words)
		if a := r.send(t, p.Request(PostsPath, fmt.Sprintf("k-%d", i), body.JSON(t))); a.Status != 201 {
			t.Fatalf("a comment: %d %v\n%s", a.Status, a.err, a.Body)
		}
	}
	r.awaitReady(t)
	projected := func() bool {
		return value[string](t, observer, `SELECT coalesce(string_agg(title, ' | '), '') FROM analytics.novels`) == title &&
			value[int](t, observer, `SELECT count(*) FROM analytics.posts WHERE content LIKE '% says ' || $1`, words) == 3
	}
	testdb.Eventually(t, "the comments and their novel are projected", projected)
	if tables := value[int](t, observer, `SELECT count(*) FROM pg_class WHERE relname IN ('events', 'posts')
		AND relkind = 'r' AND relnamespace <> 'public'::regnamespace`); tables != 0 {
		t.Errorf("%d tables are not in schema public", tables)
	}
	awaitSigned(t, observer)
	r.Stop(t)
	for _, args := range [][]string{{"projection", "rebuild", "posts"}, {"events", "verify"}} {
		var out Output
		testdb.Eventually(t, "the server or the pooler takes connections", func() bool {
			out = RunCLI(t, databaseURL, args...)
			return v.pooled == "" || !strings.Contains(out.Stderr, "connection refused")
		})
		if out.Code != 0 {
			t.Errorf("%v: exit code %d\n%s%s", args, out.Code, out.Stdout, out.Stderr)
		}
	}
	if !projected() {
		t.Error("the rebuilt table lacks comments")
	}
}

// startBouncer starts a pgbouncer in front of a server and returns its address. Without one the test is skipped.
func startBouncer(t *testing.T, mode, server string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed: .ci/run installs it with apt-get")
	}
	address, dir := fmt.Sprint("127.0.0.1:", testdb.ReservePort(t)), t.TempDir()
	listen, listenPort, _ := net.SplitHostPort(address)
	to, toPort, _ := net.SplitHostPort(server)
	// The users are those of a file: pgbouncer trusts them as the server does.
	users := ""
	for i := range len(variants) {
		users += fmt.Sprintf("\"v%d_role\" \"\"\n", i)
	}
	config := fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = %s\nlisten_port = "+
		"%s\nunix_socket_dir =\nauth_type = trust\n"+
		"auth_file = %s\npool_mode = %s\ndefault_pool_size = 60\nmax_client_conn = 200\nserver_tls_sslmode = require\n",
		to, toPort, listen, listenPort, filepath.Join(dir, "users"), mode)
	for name, content := range map[string]string{"users": users, "ini": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{filepath.Join(dir, "ini")}
	if os.Geteuid() == 0 { // it refuses to run as root
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"-u", "nobody"}, args...)
	}
	said := &testdb.Log{}
	// Restarted when it ends, as service managers do: version 1.18 may end with "bad client state" after it has forwarded
	// a cancel request.
	testdb.Background(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.Stdout, cmd.Stderr = said, said
			_ = cmd.Run()
			time.Sleep(100 * time.Millisecond)
		}
	})
	testdb.Eventually(t, "pgbouncer listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil || strings.Contains(said.String(), "FATAL")
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pgbouncer said at last:\n%s", lastLines(said.String(), 12))
		}
	})
	return address
}
