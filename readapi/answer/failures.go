package answer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"novelgate/commands/problem"
)

// quietTime is how long the requests that an outage fails are not worth a line of their own.
const quietTime = time.Second

// Failures logs the requests that could not be answered: every defect, and of those that an outage fails one in every
// second, the others at the level of debugging. The zero value is ready.
type Failures struct{ quiet atomic.Bool }

// Log logs a request that is answered with p, unless that is the client's affair. What was asked for and the path are
// added to the attributes.
func (f *Failures) Log(r *http.Request, logger *slog.Logger, what string, p *problem.Error, attributes ...slog.Attr) {
	level := slog.LevelError
	switch p.Code {
	case problem.CodeInternal:
	case problem.CodeUnavailable:
		level = slog.LevelDebug
		// else the client has gone away
		if !errors.Is(r.Context().Err(), context.Canceled) && f.quiet.CompareAndSwap(false, true) {
			time.AfterFunc(quietTime, func() { f.quiet.Store(false) })
			level = slog.LevelWarn
		}
	default:
		return
	}
	logger.LogAttrs(r.Context(), level, "a request could not be answered",
		append(attributes, slog.String("what", what), slog.String("path", r.URL.Path))...)
}
