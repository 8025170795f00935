package readers

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/readapi/queries"
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Peer runs the statement of the first page of a discussion and prints its rows as text, one column after the other:
// the least that a page can cost which is read and not remembered.
func Peer(pool *pgxpool.Pool, slug string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// One less: the service reads one top-level comment more than it shows, and this handler is spared that.
		sql, args := queries.Statement(queries.DiscussionParams{Slug: slug, Newest: true, Limit: Tops - 1})
		rows, err := pool.Query(r.Context(), sql, args...)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		buffer, _ := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(buffer)
		buffer.Reset()
		if err := printRows(buffer, rows); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(buffer.Len()))
		_, _ = w.Write(buffer.Bytes()) // a failing connection is the client's affair
	})
}

func printRows(buffer *bytes.Buffer, rows pgx.Rows) error {
	var (
		novel, thread, post, parent, root, author pgtype.UUID
		slug, title, state, language, cover       string
		depth                                     int
		written, received                         pgtype.Timestamptz
		hidden, cut                               bool
		chapter, content, member, name, platform  pgtype.Text
	)
	columns := []any{
		&novel, &slug, &title, &state, &language, &cover, &thread, &post, &parent, &root, &depth, &chapter, &written,
		&received, &author,
		&hidden, &cut, &content, &member, &name, &platform,
	}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		_, err := fmt.Fprintln(buffer, post.String(), parent.String(), depth, chapter.String, written.Time, hidden,
			name.String, platform.String, content.String)
		return err
	})
	return err //nolint:wrapcheck // the handler prints it
}
