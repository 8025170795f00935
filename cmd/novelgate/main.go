// Command novelgate takes novels and comments from partner platforms in and keeps their history.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/apikey"
	"novelgate/internal/pgserver"
)

func main() {
	// Signals stay caught to the end: a supervisor that repeats SIGTERM must not turn a clean exit into a kill.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once the shutdown has begun, another Ctrl-C ends the process at once.
	secondInterrupt := func() { signal.Reset(os.Interrupt) }
	os.Exit(run(ctx, secondInterrupt, os.Args[1:], os.Stdout, os.Stderr))
}

// CLI is every command, flag and environment variable of the program.
type CLI struct {
	Serve       ServeCommand       `cmd:"" help:"Run the service: the partner interface, the projections, metrics."`
	Migrate     MigrateCommand     `cmd:"" help:"Bring the database to the newest schema. serve does so by itself."`
	Integration IntegrationCommand `cmd:"" help:"Manage partner platforms: capabilities, limits, review."`
	Key         KeyCommand         `cmd:"" help:"Manage the API keys of integrations."`
	Staff       PersonCommand      `cmd:"" help:"Manage the API keys of staff."`
	Auditor     PersonCommand      `cmd:"" help:"Manage the API keys of auditors."`
	Novel       NovelCommand       `cmd:"" help:"Publish, approve and reject novels; look at them."`
	Author      AuthorCommand      `cmd:"" help:"Link, block and unblock partners' users; hide or erase what they wrote."`
	Post        PostCommand        `cmd:"" help:"Hide and restore posts; look at them."`
	Projection  ProjectionCommand  `cmd:"" help:"Look after the asynchronous projections."`
	Analytics   AnalyticsCommand   `cmd:"" help:"Export what analysts query."`
	Ledger      LedgerCommand      `cmd:"" help:"Look after the ledger, which makes the event history tamper-evident."`
	Events      EventsCommand      `cmd:"" help:"Look into the event history; every look is recorded."`
	Version     VersionCommand     `cmd:"" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version."`
}

// invocation is what a command finds when it runs.
type invocation struct {
	ctx            context.Context //nolint:containedctx // kong passes one value to Run methods
	stopSignals    func()          // after it, an interrupt ends the process at once
	stdout, stderr io.Writer
	now            func() time.Time
}

// run parses the arguments and runs one command. It returns the exit code: 0, 1 when the command was refused or
// failed, 80 for a wrong command line.
func run(ctx context.Context, stopSignals func(), args []string, stdout, stderr io.Writer) int {
	var cli CLI
	exit := -1
	parser, err := kong.New(&cli,
		kong.Name("novelgate"),
		kong.Description("Takes novels and reader comments from partner platforms into a host platform."),
		kong.Vars{"data_dir": pgserver.DefaultDataDir(), "version": thisBuild().String()},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, Tree: true}),
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
		return refuse(stderr, err)
	}
	in := &invocation{ctx: ctx, stopSignals: stopSignals, stdout: stdout, stderr: stderr, now: time.Now}
	if err := parsed.Run(in); err != nil {
		fmt.Fprintln(stderr, "novelgate:", explain(err))
		return 1
	}
	return 0
}

// refuse says what is wrong with a command line, and which help to read. It returns the exit code.
func refuse(stderr io.Writer, err error) int {
	exit, command := 1, "novelgate"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		exit = wrong.ExitCode()
		for _, step := range wrong.Context.Path {
			if step.Command != nil {
				command += " " + step.Command.Name
			}
		}
	}
	fmt.Fprintf(stderr, "novelgate: %s\nRun `%s --help` for usage.\n", apikey.Redact(err.Error()), command)
	return exit
}

// The SQLSTATEs of a statement on a table, a column or a function that does not exist.
var undefined = []string{"42P01", "42703", "42883"}

// explain says what to do about an error, where that is known. Of a key that was given where something else belongs it
// leaves the prefix: what a command says ends up in logs.
func explain(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && slices.Contains(undefined, pgErr.Code) {
		return "the database has no schema yet, or an older one (" + pgErr.Message + "): wait until `novelgate serve` has started, or run `novelgate migrate`"
	}
	return eachOnce(apikey.Redact(err.Error()))
}

// eachOnce leaves out lines that stand right below their like: a connection that is refused with TLS is tried without,
// and refused again.
func eachOnce(text string) string {
	return strings.Join(slices.Compact(strings.Split(text, "\n")), "\n")
}
