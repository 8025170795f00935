package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"novelgate/projections/rebuild"
)

// lineInterval is how often progress is told where there is no terminal to draw on.
const lineInterval = 5 * time.Second

// progress shows how far a rebuild is: a bar on a terminal, else a line now and then.
type progress struct {
	out   io.Writer
	now   func() time.Time
	bar   *progressbar.ProgressBar // nil without a terminal
	phase string
	first rebuild.Progress // what earlier attempts did
	begun time.Time
	told  time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	p := &progress{out: out, now: now}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(out), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("events"), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
	}
	return p
}

// show is called as the work proceeds.
func (p *progress) show(at rebuild.Progress) {
	if p.begun.IsZero() {
		p.begun, p.first = p.now(), at
		if p.bar != nil {
			p.bar.ChangeMax(at.Total)
		}
	}
	entered := at.Phase != p.phase
	p.phase = at.Phase
	if p.bar != nil {
		if entered {
			p.bar.Describe(at.Phase)
		}
		if at.Total > p.bar.GetMax() {
			p.bar.ChangeMax(at.Total)
		}
		p.bar.Set(at.Done) //nolint:errcheck // the terminal is gone
		return
	}
	now := p.now()
	if !entered && now.Sub(p.told) < lineInterval {
		return
	}
	p.told = now
	line := fmt.Sprintf("%s: %d of %d events", at.Phase, at.Done, at.Total)
	if rate := float64(at.Done-p.first.Done) / now.Sub(p.begun).Seconds(); at.Done > p.first.Done && rate > 0 {
		left := time.Duration(float64(at.Total-at.Done) / rate * float64(time.Second))
		line += fmt.Sprintf(", %.0f events/s, %v left", rate, left.Round(time.Second))
	}
	fmt.Fprintln(p.out, line)
}

// end clears the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Clear() //nolint:errcheck // the terminal is gone
	}
}
