package audit

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"novelgate/internal/problem"
	"novelgate/readapi/history"
)

// lines answers with a stream: one event on each line. It ends at the end of the log as it was when the request came,
// or never.
func (a *API) lines(w http.ResponseWriter, rd *read, o *options) error {
	ctx, cancel := a.WithTimeout(rd.Context())
	defer cancel()
	reader, err := history.NewReader(ctx, a.DB, o.filter)
	if err != nil {
		return err
	}
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

	s := &history.Stream{Reader: reader, Limit: o.limit, Follow: o.follow, Wake: a.Wake}
	out := &lineWriter{
		api: a, w: w, control: http.NewResponseController(w), request: rd.Request, follow: o.follow, allowedAt: a.Now(),
	}
	err = out.unlimited()
	if err == nil {
		err = s.Run(rd.Context(), o.cursor, out.events, out.idle)
	}
	a.end(rd, entry, out.rows)
	switch {
	case err == nil, errors.Is(err, errDraining):
		return nil
	case !out.begun:
		return err
	case rd.Context().Err() == nil && !errors.Is(err, errClient):
		a.Logger.WarnContext(rd.Context(), "a stream of the history broke off", slog.String("requestId", rd.entry.RequestID),
			slog.Any("error", err))
	}
	// The client must not take what it has got for all there is.
	panic(http.ErrAbortHandler)
}

var (
	errDraining = errors.New("the service is shutting down")
	errClient   = errors.New("the client may not have or does not take the answer")
)

// lineWriter writes a stream to a client, and gives it up when it takes nothing for too long.
type lineWriter struct {
	api     *API
	w       http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	follow  bool
	buffer  []byte
	begun   bool
	rows    int64 // that were sent

	last      time.Time // when something was sent
	allowedAt time.Time // when the key was good
}

// unlimited takes away the time within which a request must arrive: it has, and net/http would cancel its context then.
// Not every writer has deadlines: those of tests have none.
func (l *lineWriter) unlimited() error {
	if err := l.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errClient, err)
	}
	return nil
}

// flushSize is how much is collected before it is sent.
const flushSize = 64 << 10

// events writes events and sends them.
func (l *lineWriter) events(list []history.Event) error {
	sent := 0
	for i := range list {
		var err error
		if l.buffer, err = history.AppendCloudEvent(l.buffer, &list[i]); err != nil {
			return err
		}
		l.buffer = append(l.buffer, '\n')
		if len(l.buffer) < flushSize && i < len(list)-1 {
			continue
		}
		if err := l.allowed(); err != nil {
			return err
		}
		if err := l.send(l.buffer); err != nil {
			return err
		}
		l.rows += int64(i + 1 - sent)
		l.buffer, sent = l.buffer[:0], i+1
	}
	return nil
}

// idle sends the header of an answer that has none yet, so that the client knows that it listens, and an empty line
// when nothing was sent for a while.
func (l *lineWriter) idle() error {
	if !l.begun {
		return l.send(nil)
	}
	if err := l.allowed(); err != nil {
		return err
	}
	if l.api.Now().Sub(l.last) >= orDefault(l.api.Heartbeat, defaultHeartbeat) {
		return l.send([]byte("\n"))
	}
	return nil
}

// allowed is asked before everything that is sent: a client that takes its time makes hundreds of events last. It ends
// the stream when its key opens nothing any more, and one that follows the log when the process shuts down.
func (l *lineWriter) allowed() error {
	if l.follow && l.api.Draining() {
		return errDraining
	}
	now := l.api.Now()
	if now.Sub(l.allowedAt) < recheck {
		return nil
	}
	var refused *problem.Error
	if _, err := l.api.Authenticate(l.request.Context(), l.request.Header); errors.As(err, &refused) {
		return errors.Join(errClient, err)
	}
	l.allowedAt = now
	return nil
}

// recheck is how often it is asked whether the key of a stream was revoked. With the waits of a stream and the memory
// of package access this keeps a revocation effective within a second, but for what is being sent: a slow client has
// WriteTimeout to take that.
const recheck = 100 * time.Millisecond

func (l *lineWriter) send(text []byte) error {
	now := l.api.Now()
	// The server's own deadline is for a whole answer.
	if err := l.control.SetWriteDeadline(now.Add(orDefault(l.api.WriteTimeout, defaultWriteTimeout))); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errClient, err)
	}
	if !l.begun {
		l.begun = true
		h := l.w.Header()
		h.Set("Content-Type", lineMediaType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies must not keep what is live
		l.w.WriteHeader(http.StatusOK)
	}
	if len(text) > 0 {
		if _, err := l.w.Write(text); err != nil {
			return errors.Join(errClient, err)
		}
	}
	if err := l.control.Flush(); err != nil {
		return errors.Join(errClient, err)
	}
	l.last = now
	return nil
}

func orDefault(value, standard time.Duration) time.Duration {
	if value == 0 {
		return standard
	}
	return value
}
