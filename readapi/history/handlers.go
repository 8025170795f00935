package history

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"novelgate/events/cloudevent"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// events handles GET /api/events, and GET /api/streams/{streamType}/{streamId}: the events of one aggregate, as a
// stream or as a page.
func (a *API) events(w http.ResponseWriter, rd *readRequest) error {
	o, err := parse(rd)
	if err != nil {
		return err
	}
	if text, ok := mux.Vars(rd.Request)["streamId"]; ok {
		id, ok := web.ParseID(text)
		if !ok {
			return problem.ErrNotFound
		}
		o.filter.Stream, o.filter.StreamType = uuid.NullUUID{UUID: id, Valid: true}, mux.Vars(rd.Request)["streamType"]
		// The other filters may leave a known stream without events; an unknown one is not found.
		kind, err := StreamType(rd.Context(), a.DB, id)
		if err != nil {
			return err
		}
		if kind != o.filter.StreamType {
			return ErrNotFound
		}
	}
	reader, err := NewReader(rd.Context(), a.DB, o.filter)
	if err != nil {
		return err
	}
	if o.Lines {
		return a.lines(w, rd, o, reader)
	}
	return a.page(w, rd, o, reader)
}

// page sends one page as JSON.
func (a *API) page(w http.ResponseWriter, rd *readRequest, o *options, reader *Reader) error {
	return a.sendRecorded(w, rd, "application/json", func(ctx context.Context) ([]byte, int64, error) {
		end, err := reader.End(ctx)
		if err != nil {
			return nil, 0, err
		}
		if o.Now {
			o.Cursor = end
		}
		page, err := reader.Page(ctx, o.Cursor, end, o.Limit)
		if err != nil {
			return nil, 0, err
		}
		body, err := renderPage(&page)
		return body, int64(len(page.Events)), err
	})
}

// renderPage renders a page. cursor is always the place to continue; nextCursor is the same, or null at the end.
func renderPage(page *Page) ([]byte, error) {
	body := []byte(`{"items":[`)
	for i := range page.Events {
		if i > 0 {
			body = append(body, ',')
		}
		var err error
		if body, err = AppendCloudEvent(body, &page.Events[i]); err != nil {
			return nil, err
		}
	}
	cursor, err := jsontext.AppendQuote(nil, page.Next.String())
	if err != nil {
		return nil, fmt.Errorf("render cursor: %w", err)
	}
	body = append(append(body, `],"cursor":`...), cursor...)
	if !page.More {
		cursor = []byte("null")
	}
	return append(append(append(body, `,"nextCursor":`...), cursor...), '}'), nil
}

// event handles GET /api/events/{logIndex}.
func (a *API) event(w http.ResponseWriter, rd *readRequest) error {
	index, err := strconv.ParseInt(mux.Vars(rd.Request)["logIndex"], 10, 64)
	if err != nil || index < 0 {
		return problem.ErrNotFound
	}
	return a.sendRecorded(w, rd, cloudevent.MediaType, func(ctx context.Context) ([]byte, int64, error) {
		found, err := At(ctx, a.DB, index)
		if err != nil {
			return nil, 0, err
		}
		body, err := AppendCloudEvent(nil, &found)
		return body, 1, err
	})
}

// lines sends a stream with one event per line. Unless it follows the log, it ends at the end of the log at the time of
// the request.
func (a *API) lines(w http.ResponseWriter, rd *readRequest, o *options, reader *Reader) error {
	if o.Now {
		end, err := reader.End(rd.Context())
		if err != nil {
			return err
		}
		o.Cursor = end
	}
	entry, err := a.accessLog().Begin(rd.Context(), &rd.access)
	if err != nil {
		return err
	}

	s := &Stream{Reader: reader, Limit: o.Limit, Follow: o.Follow, Wake: a.Wake}
	out := &web.Lines{
		Kit: a.Kit, Writer: w, Request: rd.client, WriteTimeout: a.WriteTimeout, Heartbeat: a.Heartbeat,
		CheckKey: func() error { return rd.checkKey(rd.client.Context()) },
	}
	if o.Follow {
		out.Draining = a.Draining
	}
	emit := func(list []Event) error {
		return out.Write(len(list), func(buffer []byte, i int) ([]byte, error) {
			return AppendCloudEvent(buffer, &list[i])
		})
	}
	defer func() { a.end(rd, entry, out.Sent) }()
	return out.Run(rd.client.Context(), func(ctx context.Context) error {
		return s.Run(ctx, o.Cursor, emit, out.KeepAlive)
	})
}

// sendRecorded sends the result of render, a body and its number of rows. It writes the entry of the access log at the
// same time; if that fails, it sends nothing.
func (a *API) sendRecorded(
	w http.ResponseWriter, rd *readRequest, mediaType string, render func(ctx context.Context) ([]byte, int64, error),
) error {
	var body []byte
	var rows, entry int64
	group, ctx := errgroup.WithContext(rd.Context())
	group.Go(func() (err error) {
		body, rows, err = render(ctx)
		return err
	})
	group.Go(func() (err error) {
		// Not ctx: a failed read is recorded too.
		entry, err = a.accessLog().Begin(rd.Context(), &rd.access)
		return err
	})
	err := group.Wait()
	if err != nil {
		if entry != 0 {
			a.end(rd, entry, 0)
		}
		return err
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)                      // an error means that the client disconnected
	_ = http.NewResponseController(w).Flush() // before the entry is completed, so that the client does not wait for it
	a.end(rd, entry, rows)
	return nil
}

// end adds the number of rows to an entry of the access log, also after the client has disconnected.
func (a *API) end(rd *readRequest, entry, rows int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(rd.Context()), 5*time.Second)
	defer cancel()
	if err := a.accessLog().End(ctx, entry, rows); err != nil {
		a.Logger.WarnContext(ctx, "cannot record the rows of a read in the access log", slog.Int64("entry", entry),
			slog.Int64("rows", rows), slog.Any("error", err))
	}
}
