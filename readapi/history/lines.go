package history

import (
	"log/slog"
	"net/http"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/internal/httpkit"
)

// lines sends a stream with one event per line. It ends at the end of the log at the time of the request, or, when it
// follows the log, never.
func (a *API) lines(w http.ResponseWriter, rd *readRequest, o *options) error {
	ctx, cancel := a.WithTimeout(rd.Context())
	defer cancel()
	reader, err := NewReader(ctx, a.DB, o.filter)
	if err != nil {
		return err
	}
	reader.UseStandbys(a.Standbys, a.Timeout/2)
	if o.now {
		horizon, err := reader.Horizon(ctx)
		if err != nil {
			return err
		}
		o.cursor = horizon.Cursor()
	}
	entry, err := a.log().Begin(ctx, &rd.entry)
	if err != nil {
		return err
	}

	s := &Stream{Reader: reader, Limit: o.limit, Follow: o.follow, Wake: a.Wake}
	out := &httpkit.Lines{
		Writer: w, Request: rd.Request, Now: a.Now, WriteTimeout: a.WriteTimeout, Heartbeat: a.Heartbeat,
		Allowed: func() error {
			_, err := a.Authenticate(rd.Context(), rd.Header)
			return err
		},
	}
	if o.follow {
		out.Draining = a.Draining
	}
	emit := func(list []Event) error {
		return out.Write(len(list), func(buffer []byte, i int) ([]byte, error) {
			if o.stored {
				return appendStored(buffer, &list[i])
			}
			return AppendCloudEvent(buffer, &list[i])
		})
	}
	err = out.Unlimited()
	if err == nil {
		err = s.Run(rd.Context(), o.cursor, emit, out.Idle)
	}
	a.end(rd, entry, out.Sent)
	return out.End(err, func(err error) {
		a.Logger.WarnContext(rd.Context(), "a stream of the history broke off", slog.String("requestId", rd.entry.RequestID),
			slog.Any("error", err))
	})
}

// appendStored appends an event as a line of a bundle, which has all data for its entry in the ledger.
func appendStored(buffer []byte, e *Event) ([]byte, error) {
	stored := ledger.Event{Row: e.Row, LogIndex: ledger.NoLogIndex}
	if e.LogIndex != nil {
		stored.LogIndex = *e.LogIndex
	}
	return audit.AppendEvent(buffer, &stored)
}
