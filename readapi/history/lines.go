package history

import (
	"context"
	"net/http"

	"novelgate/internal/httpkit"
)

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
	out := &httpkit.Lines{
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
