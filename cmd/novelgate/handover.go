package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/handover"
	"novelgate/internal/database"
)

type handoverCommand struct {
	DatabaseFlags
	Ledger          SigningFlags  `embed:"" prefix:"ledger-" envprefix:"NOVELGATE_LEDGER_"`
	File            string        `arg:"" optional:"" help:"File for the mirror. It has the private keys of the ledger. -: standard output."`
	To              *url.URL      `placeholder:"URL" help:"Public URL of the mirror that continues."`
	Undo            bool          `help:"Accept commands again, if the mirror was not promoted. A complete handover needs its FILE, which is deleted."`
	Force           bool          `help:"Run again or undo a handover although the mirror does not say whether it was promoted, or ignore a promotion although the promoted service may still run. If it was promoted, or will be, two services accept commands and sign two histories under one key."`
	IgnorePromotion bool          `help:"With --undo: undo although another service was promoted in place of this one, by mistake. It must be off for good: what it has accepted is lost, and its promotion is ignored."`
	LeaveImports    bool          `help:"Hand over although bulk imports have not ended. Their partners must send them to the mirror again."`
	Wait            time.Duration `default:"30s" help:"Longest time to wait for running transactions, and then without commands until the handover is complete; then it is undone (default: ${default})."`
}

// Help is shown by --help.
func (*handoverCommand) Help() string {
	return "Run it where the key and the memory of the ledger are, while the mirror runs. It can be repeated after an " +
		"interruption. Then run `novelgate promote FILE` at the mirror. See docs/promotion.md."
}

// Validate refuses flags that do not belong together; kong calls it.
func (c *handoverCommand) Validate() error {
	switch {
	case c.Wait <= 0:
		return errors.New("--wait must be positive")
	case c.IgnorePromotion && (!c.Undo || c.File != ""):
		return errors.New("--ignore-promotion is for --undo without FILE")
	case c.Undo && c.File == standardStream:
		return errors.New("--undo needs the FILE itself")
	case c.Undo:
		return nil
	case c.File == "" || c.To == nil:
		return errors.New("FILE and --to are needed")
	}
	return requireHTTP("--to", c.To)
}

// Run hands over, or undoes a handover.
func (c *handoverCommand) Run(ctx context.Context, s streams, pool *pgxpool.Pool, now clock) error {
	if err := database.CheckSessions(ctx, pool); err != nil { // a session holds the lock of a handover
		return fmt.Errorf("check the database: %w", err)
	}
	key, memory := c.Ledger.files(c.DataDir)
	start := now()
	o := &handover.Origin{
		Pool: pool, KeyFile: key, Memory: memory, Client: &http.Client{Timeout: successorTimeout},
		LeaveImports: c.LeaveImports, Force: c.Force, IgnorePromotion: c.IgnorePromotion, Wait: c.Wait,
		Logger: s.logger(slog.LevelError),
		Report: func(text string) { fmt.Fprintf(s.stderr, "%6.3f s  %s\n", now().Sub(start).Seconds(), text) },
	}
	if c.Undo {
		return c.undo(ctx, s, o)
	}
	return c.handOver(ctx, s, o)
}

// handOver hands over, and writes the token to the file or to standard output.
func (c *handoverCommand) handOver(ctx context.Context, s streams, o *handover.Origin) error {
	var file *os.File
	if c.File != standardStream {
		o.Claim = func(promotion uuid.UUID) (err error) { file, err = claimFile(c.File, promotion); return err }
	}
	o.Successor = strings.TrimRight(c.To.String(), "/")
	token, err := o.HandOver(ctx)
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close(), os.Remove(c.File))
		}
		return err
	}
	if file == nil {
		err = token.Write(s.stdout)
	} else if err = writeFile(file, token); err != nil {
		err = errors.Join(err, os.Remove(c.File))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", handover.ErrNoFile, err)
	}
	if file != nil {
		o.Report("Run at the mirror: novelgate promote " + c.File)
	}
	return nil
}

// undo undoes a handover, and deletes its file.
func (c *handoverCommand) undo(ctx context.Context, s streams, o *handover.Origin) (err error) {
	var token *handover.Token
	if c.File != "" {
		var release func()
		if token, release, err = readToken(c.File); err != nil {
			return err
		}
		defer release()
	}
	if err := o.Undo(ctx, token); err != nil {
		return err
	}
	if token != nil {
		if err := os.Remove(c.File); err != nil {
			return fmt.Errorf("this service accepts commands again; delete the file, which has private keys: %w", err)
		}
	}
	fmt.Fprintln(s.stdout, "This service accepts commands again.")
	return nil
}
