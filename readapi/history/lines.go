package history

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"novelgate/internal/problem"
)

// lines sends a stream with one event per line. It ends at the end of the log at the time of the request, or, when it
// follows the log, never.
func (a *API) lines(w http.ResponseWriter, rd *read, o *options) error {
	ctx, cancel := a.WithTimeout(rd.Context())
	defer cancel()
	reader, err := NewReader(ctx, a.DB, o.filter)
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

	s := &Stream{Reader: reader, Limit: o.limit, Follow: o.follow, Wake: a.Wake}
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
	// Abort, so that the client detects that the stream is incomplete.
	panic(http.ErrAbortHandler)
}

var (
	errDraining = errors.New("the service is shutting down")
	errClient   = errors.New("the client may not have or does not take the answer")
)

// lineWriter writes a stream to a client. It fails when the client does not receive within the write time-out.
type lineWriter struct {
	api     *API
	w       http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	follow  bool
	buffer  []byte
	begun   bool
	rows    int64 // number of sent events

	last      time.Time // time of the last write
	allowedAt time.Time // when the key was last valid
}

// unlimited removes the read deadline, at which net/http would cancel the request's context. It would not for a request
// with a body, which net/http waits for after the stream. Writers of tests have no deadlines.
func (l *lineWriter) unlimited() error {
	if l.request.ContentLength != 0 {
		return nil
	}
	if err := l.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errClient, err)
	}
	return nil
}

// flushSize is the number of bytes that are collected before they are sent.
const flushSize = 64 << 10

// events writes events and sends them.
func (l *lineWriter) events(list []Event) error {
	sent := 0
	for i := range list {
		var err error
		if l.buffer, err = AppendCloudEvent(l.buffer, &list[i]); err != nil {
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

// idle sends the header at the start of a stream, so that the client knows that it is connected, and an empty line
// after a pause.
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

// allowed is called before every write, because a slow client may receive hundreds of events for a long time. It ends
// the stream when its key is no longer valid, and a stream that follows the log when the process shuts down.
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

// recheck is the interval between checks of a stream's key. Together with the pauses of a stream and the cache of
// package access, a revocation takes effect within a second, except for a running write: a slow client has WriteTimeout
// to receive it.
const recheck = 100 * time.Millisecond

func (l *lineWriter) send(text []byte) error {
	now := l.api.Now()
	// The server's own deadline is for a whole response.
	if err := l.control.SetWriteDeadline(now.Add(orDefault(l.api.WriteTimeout, defaultWriteTimeout))); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errClient, err)
	}
	if !l.begun {
		l.begun = true
		h := l.w.Header()
		h.Set("Content-Type", lineMediaType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies must not buffer a live stream
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
