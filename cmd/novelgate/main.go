// Command novelgate imports novels and comments from partner platforms and keeps their history.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

func main() {
	// SIGTERM stays caught until the process ends: a repeated one must not turn a clean exit into a kill.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// program declares all commands, flags and environment variables.
type program struct {
	Serve       serveCommand       `cmd:"" help:"Run the service: the partner interface, the projections, metrics."`
	Migrate     migrateCommand     `cmd:"" help:"Migrate the database to the newest schema. serve does this at its start."`
	Integration integrationCommand `cmd:"" help:"Manage partner platforms: capabilities, limits, review."`
	Sandbox     sandboxCommand     `cmd:"" help:"Empty a sandbox, the installation in which partners try the interface."`
	Key         keyCommand         `cmd:"" help:"Manage the API keys of integrations."`
	Staff       staffUserCommand   `cmd:"" help:"Manage the API keys of staff."`
	Auditor     staffUserCommand   `cmd:"" help:"Manage the API keys of auditors."`
	Novel       novelCommand       `cmd:"" help:"Publish, edit, approve, reject and show novels."`
	Author      authorCommand      `cmd:"" help:"Link, block and unblock authors; hide, restore or erase their comments."`
	Post        postCommand        `cmd:"" help:"Hide, restore and show posts."`
	Webhook     webhookCommand     `cmd:"" help:"List webhooks of partners, and switch them off and on."`
	Import      importCommand      `cmd:"" help:"Import files of novels and comments in bulk, as a partner."`
	Projection  projectionCommand  `cmd:"" help:"Manage the asynchronous projections."`
	Analytics   analyticsCommand   `cmd:"" help:"List and export the views for analysts."`
	Ledger      ledgerCommand      `cmd:"" help:"Manage the ledger, which makes the event history tamper-evident."`
	Events      eventsCommand      `cmd:"" help:"Read the event history; every access is recorded."`
	Backup      backupCommand      `cmd:"" help:"Back up the embedded PostgreSQL while it runs."`
	Restore     restoreCommand     `cmd:"" help:"Restore a backup of the embedded PostgreSQL, to a moment or to its end."`
	Doctor      doctorCommand      `cmd:"" help:"Check the database server (exit code 1 if a check fails)."`
	Healthcheck healthcheckCommand `cmd:"" help:"Check the running service (exit code 1 if it is not ready)."`

	Version kong.VersionFlag `help:"Print the version."`
}

// run parses the arguments and runs one command. It returns the exit code: 0, 1 when the command was refused or
// failed, 80 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	exit := -1
	env := &environment{stdout: &output{Writer: stdout}, stderr: stderr, width: terminalWidth(stdout), now: time.Now}
	parser, err := kong.New(&program{},
		kong.Name("novelgate"),
		kong.Description("Imports novels and reader comments from partner platforms into a host platform."),
		kong.Vars{
			"data_dir": pgserver.DefaultDataDir(),
			"version":  fmt.Sprintf("novelgate %s (commit %s, %s)", version, thisCommit(), runtime.Version()),
		},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, Tree: true}),
		kong.Bind(env),
	)
	if err != nil {
		fmt.Fprintln(stderr, "novelgate:", err)
		return 1
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // --help or --version was given
		return exit
	}
	if err != nil {
		return printUsageError(stderr, err)
	}
	env.noun, env.verb = parsed.Selected().Parent.Name, parsed.Selected().Name
	selected, watch := commandOf(parsed.Selected()), (*database.Watch)(nil)
	if _, logs := selected.(*serveCommand); !logs {
		ctx, watch = database.StartWatch(ctx, func(cause string) { fmt.Fprintln(stderr, "novelgate: waiting for", cause) })
	}
	err = selected.run(ctx, env)
	if watch != nil {
		watch.Stop() // before the connections are closed, which may take a moment
	}
	for _, do := range slices.Backward(env.closers) {
		do()
	}
	if err = cmp.Or(err, env.stdout.err); err != nil {
		text := strings.TrimPrefix(explain(err), "novelgate: ") // errors of client begin with it
		if shows, changes := outcomes[env.noun]; changes && watch != nil && watch.OutcomeUnknown() {
			text += "; outcome unknown, the change may have been made: see `novelgate " + shows + "`"
		}
		fmt.Fprintln(stderr, "novelgate:", text)
		return 1
	}
	return 0
}

// outcomes are the commands that show what the commands of a noun have changed.
var outcomes = map[string]string{
	"integration": "integration list", "key": "key list", "staff": "staff list", "auditor": "auditor list",
	"novel": "novel show", "author": "author show", "post": "post show", "webhook": "webhook list",
	"projection": "projection list",
}

// command is the struct of a command, or that of its noun, which runs all its verbs. The method is not Run, because
// kong takes a noun with that method for a command of its own.
type command interface {
	run(ctx context.Context, env *environment) error
}

func commandOf(node *kong.Node) command {
	if c, ok := node.Target.Addr().Interface().(command); ok {
		return c
	}
	return node.Parent.Target.Addr().Interface().(command) //nolint:forcetypeassert // TestCommands
}

// environment is what all commands run in.
type environment struct {
	stdout     *output
	stderr     io.Writer
	width      int // of the terminal that standard output is; 0: none
	now        func() time.Time
	noun, verb string        // words of the command, such as author and block, for types that several commands share
	database   DatabaseFlags // of the command
	backupDir  string        // of a server that the command starts
	service    ServiceFlags  // of the command
	json       bool          // print JSON, not text
	closers    []func()      // what run calls in reverse when the command has ended
}

// printUsageError prints the error of a command line and the command that prints its help. It returns the exit code.
func printUsageError(stderr io.Writer, err error) int {
	exit, command := 1, "novelgate"
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
		exit = wrong.ExitCode()
		for _, step := range wrong.Context.Path {
			if step.Command != nil {
				command += " " + step.Command.Name
			}
		}
	}
	fmt.Fprintf(stderr, "novelgate: %s\nRun `%s --help` for usage.\n", auth.Redact(err.Error()), command)
	return exit
}

// missingSchemaCodes are the SQLSTATEs undefined_table, undefined_column and undefined_function.
var missingSchemaCodes = []string{"42P01", "42703", "42883"}

// lacksSchema reports whether an error comes from a database without the schema, or with an older one.
func lacksSchema(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(missingSchemaCodes, pgErr.Code)
}

// explain returns the text of an error, with advice for a missing schema and for a server without a free connection. It
// shortens API keys to their prefixes, because messages end up in logs.
func explain(err error) string {
	if errors.Is(err, context.Canceled) { // by a signal
		return "interrupted"
	}
	if pgErr, _ := errors.AsType[*pgconn.PgError](err); lacksSchema(err) {
		return "the database has no schema yet, or an older one (" + pgErr.Message +
			"): wait until `novelgate serve` has started, or run `novelgate migrate`"
	}
	if full, ok := database.FullServer(err); ok {
		return database.ErrFull.Error() + " (" + full.Message + "): " + database.FullAdvice
	}
	return auth.Redact(database.ErrorText(err))
}

// version is that of the source; the changelog and docs/openapi.yaml have the same.
const version = "0.9.0"

// commit is set by make (-ldflags "-X main.commit=…"). A plain go build records it by itself.
var commit = ""

// thisCommit returns the commit of the source of this program, with "-dirty" if the source had changes.
func thisCommit() string {
	info, ok := debug.ReadBuildInfo()
	if commit != "" || !ok {
		return cmp.Or(commit, "unknown")
	}
	recorded := map[string]string{}
	for _, setting := range info.Settings {
		recorded[setting.Key] = setting.Value
	}
	dirty := ""
	if recorded["vcs.modified"] == "true" {
		dirty = "-dirty"
	}
	return cmp.Or(fmt.Sprintf("%.12s", recorded["vcs.revision"]), "unknown") + dirty
}
