package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/handover"
	"novelgate/events/ledger"
)

type promoteCommand struct {
	CommonFlags
	Ledger        SigningFlags  `embed:"" prefix:"ledger-" envprefix:"NOVELGATE_LEDGER_"`
	File          string        `arg:"" optional:"" help:"File of novelgate handover. It is deleted at the end. -: standard input."`
	LostOrigin    bool          `help:"The origin is lost: continue from the last verified event, under a new origin of the ledger. What the origin accepted later is lost."`
	Checkpoint    []string      `type:"existingfile" placeholder:"FILE" help:"With --lost-origin: a checkpoint of the origin from a publication directory, a witness or a reader, to know what is lost. Repeatable."`
	Origin        string        `name:"ledger-origin" placeholder:"NAME" help:"With --lost-origin: name of the new origin (default: the former one with another end)."`
	Stopped       bool          `help:"With --lost-origin: promote although the mirror has stopped because the origin delivers another history."`
	OriginAnswers bool          `help:"With --lost-origin: promote although the origin answers, or its address leads to a mirror. What the origin accepts from then on is lost."`
	Wait          time.Duration `default:"30s" help:"Longest time of each wait: for the end of a handover or undo that runs at the origin, for all events that were handed over to arrive and to be sealed, for locks of the tables (default: ${default})."`
}

// Help is shown by --help.
func (*promoteCommand) Help() string {
	return "Run it at the mirror, while the mirror runs: it accepts commands within a second. With --lost-origin, " +
		"switch the old origin off first. See docs/promotion.md."
}

// Validate refuses flags that do not belong together; kong calls it.
func (c *promoteCommand) Validate() error {
	switch {
	case c.Wait <= 0:
		return errors.New("--wait must be positive")
	case c.LostOrigin == (c.File != ""):
		return errors.New("either FILE of novelgate handover, or --lost-origin")
	case !c.LostOrigin && (len(c.Checkpoint) > 0 || c.Origin != "" || c.Stopped || c.OriginAnswers):
		return errors.New("--checkpoint, --ledger-origin, --stopped and --origin-answers are for --lost-origin")
	}
	return nil
}

// promoted is the output of a promotion.
type promoted struct {
	*handover.Promotion
	Lost bool `json:"lost"` // whether the former origin was lost
}

// Run promotes the mirror.
func (c *promoteCommand) Run(ctx context.Context, out *output, pool *pgxpool.Pool) (err error) {
	key, memory := c.Ledger.files(c.DataDir)
	m := &handover.Mirror{
		Pool: pool, KeyFile: key, Memory: memory, Wait: c.Wait, Stopped: c.Stopped, OriginAnswers: c.OriginAnswers,
		Client: &http.Client{Timeout: successorTimeout}, Logger: out.logger(slog.LevelError),
	}
	var p *handover.Promotion
	if c.LostOrigin {
		p, err = c.promoteLost(ctx, m)
	} else {
		p, err = c.promoteHandedOver(ctx, m)
	}
	if err != nil {
		return err
	}
	return out.print(promoted{p, p.Lost()}, func() { out.table(promotionRows(p)) })
}

// promoteHandedOver promotes the mirror with the token of a handover, and deletes the file of the token.
func (c *promoteCommand) promoteHandedOver(ctx context.Context, m *handover.Mirror) (*handover.Promotion, error) {
	token, release, err := readToken(c.File)
	if err != nil {
		return nil, err
	}
	defer release()
	p, err := m.Promote(ctx, token)
	if err != nil || c.File == standardStream {
		return p, err
	}
	if err := os.Remove(c.File); err != nil {
		return nil, fmt.Errorf("the mirror is promoted; delete the file of the handover, which has private keys: %w", err)
	}
	return p, nil
}

// promoteLost promotes the mirror of an origin that is lost.
func (c *promoteCommand) promoteLost(ctx context.Context, m *handover.Mirror) (*handover.Promotion, error) {
	var known []ledger.Checkpoint
	for _, file := range c.Checkpoint {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a checkpoint: %w", err)
		}
		checkpoint, err := ledger.ParseCheckpoint(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		known = append(known, checkpoint)
	}
	return m.PromoteLost(ctx, c.Origin, known)
}

func promotionRows(p *handover.Promotion) [][]any {
	rows := [][]any{
		{"PROMOTED", formatTime(&p.PromotedAt)},
		{"events", p.Entries},
		{"origin", p.NextOrigin},
	}
	if !p.Lost() {
		return append(rows, []any{"lost", "nothing"})
	}
	lost := "no event that was signed, as far as is known"
	if p.KnownEntries > p.Entries {
		lost = fmt.Sprintf("the events of log index %d to %d, which were signed", p.Entries, p.KnownEntries-1)
	}
	return append(rows, []any{"former origin", p.Origin}, []any{"lost", lost},
		[]any{"", "and what was accepted later; `novelgate events lost` at the old database names all"})
}
