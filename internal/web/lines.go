package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"novelgate/internal/problem"
)

// LineMediaType is the media type of a stream with one JSON object per line.
const LineMediaType = "application/x-ndjson"

// Reasons why a stream ends early.
var (
	ErrDraining = errors.New("the service is shutting down")
	ErrClient   = errors.New("the key of the client is not valid any more, or the client does not read the stream")
)

// Default time limits of streams.
const (
	defaultWriteTimeout = 30 * time.Second
	defaultHeartbeat    = 15 * time.Second
)

// Lines writes a stream of lines to a client. Write and KeepAlive fail when the client does not receive within the
// write time-out, when its key is no longer valid, and, with Draining, when the process shuts down.
type Lines struct {
	Kit          *Kit
	Writer       http.ResponseWriter
	Request      *http.Request
	CheckKey     func() error  // checks the client's key; only a *problem.Error ends the stream
	Draining     func() bool   // whether the process shuts down; nil: a shutdown does not end the stream
	WriteTimeout time.Duration // for the client to receive one write; default 30 s
	Heartbeat    time.Duration // time without a write until KeepAlive sends an empty line; default 15 s

	Sent int64 // number of sent lines

	buffer  []byte
	begun   bool
	last    time.Time // time of the last write
	validAt time.Time // time of the last check that did not refuse the key
}

// Run calls stream, which calls Write and KeepAlive. ctx is the context of the request. If stream returns nil or
// ErrDraining, the answer ends normally. If it returns another error before anything was sent, Run returns that error,
// for an error response. Otherwise Run panics with http.ErrAbortHandler, so that the client detects that the answer is
// incomplete, and logs the error unless the client is the cause.
func (l *Lines) Run(ctx context.Context, stream func(context.Context) error) error {
	l.validAt = l.Kit.Now()
	err := l.removeReadDeadline()
	if err == nil {
		err = stream(ctx)
	}
	if err == nil || errors.Is(err, ErrDraining) {
		return nil
	}
	if !l.begun {
		return err
	}
	if ctx.Err() == nil && !errors.Is(err, ErrClient) {
		l.Kit.Logger.WarnContext(ctx, "a stream broke off", slog.String("route", infoOf(ctx).route),
			slog.String("requestId", RequestID(ctx)), slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// removeReadDeadline removes the deadline at which net/http would cancel the request's context. A request with a body
// keeps it: net/http does not cancel the context of such a request, and the deadline limits how long net/http waits for
// the rest of the body after the stream. Writers of tests have no deadlines.
func (l *Lines) removeReadDeadline() error {
	if l.Request.ContentLength != 0 {
		return nil
	}
	err := http.NewResponseController(l.Writer).SetReadDeadline(time.Time{})
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(ErrClient, err)
	}
	return nil
}

// flushSize is the number of bytes that are collected before they are sent.
const flushSize = 64 << 10

// Write sends n lines. line appends the text of line i, without the newline, to a buffer.
func (l *Lines) Write(n int, line func(buffer []byte, i int) ([]byte, error)) error {
	flushed := 0
	for i := range n {
		var err error
		if l.buffer, err = line(l.buffer, i); err != nil {
			return err
		}
		l.buffer = append(l.buffer, '\n')
		if len(l.buffer) < flushSize && i < n-1 {
			continue
		}
		if err := l.mayWrite(); err != nil {
			return err
		}
		if err := l.send(l.buffer); err != nil {
			return err
		}
		l.Sent += int64(i + 1 - flushed)
		l.buffer, flushed = l.buffer[:0], i+1
	}
	return nil
}

// KeepAlive sends the header of the answer if nothing was sent yet, so that the client knows that it is connected.
// Later it sends an empty line once Heartbeat has passed since the last write.
func (l *Lines) KeepAlive() error {
	if !l.begun {
		return l.send(nil)
	}
	if err := l.mayWrite(); err != nil {
		return err
	}
	if l.Kit.Now().Sub(l.last) >= cmp.Or(l.Heartbeat, defaultHeartbeat) {
		return l.send([]byte("\n"))
	}
	return nil
}

// keyCheckInterval is the minimum time between two checks of a stream's key. The pauses of stream between its calls of
// Write and KeepAlive and the cache of package access add to it; together they must stay below a second, because a
// revoked key must end the stream within a second. Only a write that has begun may take longer: a slow client has
// WriteTimeout to receive it.
const keyCheckInterval = 100 * time.Millisecond

// mayWrite fails when the process shuts down or the key is no longer valid. It is called before every write except that
// of the header alone. Once for each call of Write is not enough: a slow client can take long to receive the lines of
// one call.
func (l *Lines) mayWrite() error {
	if l.Draining != nil && l.Draining() {
		return ErrDraining
	}
	now := l.Kit.Now()
	if now.Sub(l.validAt) < keyCheckInterval {
		return nil
	}
	var refused *problem.Error
	if err := l.CheckKey(); errors.As(err, &refused) {
		return errors.Join(ErrClient, err)
	}
	l.validAt = now
	return nil
}

func (l *Lines) send(text []byte) error {
	now, control := l.Kit.Now(), http.NewResponseController(l.Writer)
	// The server's own write deadline is for the whole answer.
	if err := control.SetWriteDeadline(now.Add(cmp.Or(l.WriteTimeout, defaultWriteTimeout))); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return errors.Join(ErrClient, err)
	}
	if !l.begun {
		l.begun = true
		h := l.Writer.Header()
		h.Set("Content-Type", LineMediaType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies must not buffer a live stream
		l.Writer.WriteHeader(http.StatusOK)
	}
	if len(text) > 0 {
		if _, err := l.Writer.Write(text); err != nil {
			return errors.Join(ErrClient, err)
		}
	}
	if err := control.Flush(); err != nil {
		return errors.Join(ErrClient, err)
	}
	l.last = now
	return nil
}
