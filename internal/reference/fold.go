// Package reference is the reference model of the projections, for tests: it folds the log one event at a time into
// plain maps, without batches, redelivery or SQL, and shares no code with package projections. The tables of the
// projections must equal its tables.
//
// Rows are compared as text: a JSON object with the column names as members, in the canonical form of RFC 8785, except
// that numbers keep all their digits. A table is the sorted list of its rows.
//
// It applies every event, including those that an operator let a projection skip.
package reference

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// Fold is the state after the events so far. Create it with New.
type Fold struct {
	titles       map[uuid.UUID]*titleRow
	novels       map[uuid.UUID]*novelRow
	threads      map[uuid.UUID]*threadRow
	posts        map[uuid.UUID]*postRow
	authors      map[uuid.UUID]*authorRow
	decisions    map[uuid.UUID]*decisionRow
	integrations map[uuid.UUID]*integrationRow
	keys         map[uuid.UUID]*keyRow
	persons      map[uuid.UUID]*personKeyRow
	activity     activity
	changes      []changeRow
}

// New returns the fold of an empty log.
func New() *Fold {
	return &Fold{
		titles: map[uuid.UUID]*titleRow{}, novels: map[uuid.UUID]*novelRow{}, threads: map[uuid.UUID]*threadRow{},
		posts: map[uuid.UUID]*postRow{}, authors: map[uuid.UUID]*authorRow{}, decisions: map[uuid.UUID]*decisionRow{},
		integrations: map[uuid.UUID]*integrationRow{}, keys: map[uuid.UUID]*keyRow{},
		persons: map[uuid.UUID]*personKeyRow{}, activity: newActivity(),
	}
}

// Of folds a whole log.
func Of(log []events.Recorded) *Fold {
	f := New()
	for i := range log {
		f.Add(&log[i])
	}
	return f
}

// Add folds the next event of the log.
func (f *Fold) Add(r *events.Recorded) {
	switch e := r.Event.(type) {
	case events.NovelCreated, events.NovelUpdated, events.NovelPublished, events.NovelApproved, events.NovelRejected,
		events.NovelBarred, events.NovelUnbarred:
		f.title(r)
		f.novel(r)
		f.activity.novel(r)
	case events.ThreadOpened:
		f.threads[r.StreamID] = &threadRow{NovelID: e.NovelID, ThreadID: r.StreamID}
	case events.PostImported:
		f.addPost(r, e)
		f.nameAuthor(r, e)
		f.activity.post(r, e)
	case events.PostHidden:
		f.moderate(r, true)
	case events.PostRestored:
		f.moderate(r, false)
	case events.AuthorLinked, events.AuthorUnlinked, events.AuthorBlocked, events.AuthorUnblocked,
		events.AuthorPostsHidden, events.AuthorPostsRestored:
		f.authorDecision(r)
	case events.AuthorErased:
		f.authorDecision(r)
		f.erase(r)
	case events.PersonKeyIssued, events.PersonKeyRevoked:
		f.person(r)
	case events.ProjectionEventSkipped: // about a projection
	default: // all other events are about an integration
		f.integration(r)
	}
	f.change(r) // last, because it reads novels and posts after the event
}

// erase removes the author from authors and from all earlier comments.
func (f *Fold) erase(r *events.Recorded) {
	for _, p := range f.posts {
		if p.AuthorID != nil && *p.AuthorID == r.StreamID {
			p.AuthorID, p.ContentBytes = nil, nil
		}
	}
	delete(f.authors, r.StreamID)
}

// Tables returns the rows of each table as text, sorted, by table name.
func (f *Fold) Tables() (map[string][]string, error) {
	w := &writer{tables: map[string][]string{}}
	writeAll(w, "title_lookup", maps.Values(f.titles))
	writeAll(w, "novels", maps.Values(f.novels))
	writeAll(w, "threads", maps.Values(f.threads))
	writeAll(w, "posts", maps.Values(f.posts))
	writeAll(w, "authors", maps.Values(f.authors))
	writeAll(w, "author_decisions", maps.Values(f.decisions))
	writeAll(w, "integrations", maps.Values(f.integrations))
	writeAll(w, "api_keys", maps.Values(f.keys))
	writeAll(w, "person_keys", maps.Values(f.persons))
	f.activity.write(w)
	writeAll(w, "changes", slices.Values(f.changes))
	return w.done()
}

// rowOf returns the row of a key. If there is none, it adds a row with the value first.
func rowOf[K comparable, R any](rows map[K]*R, key K, first R) *R {
	if rows[key] == nil {
		rows[key] = &first
	}
	return rows[key]
}

// canonical returns the text of a row for comparison.
func canonical(row []byte) (string, error) {
	v := jsontext.Value(row)
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return "", fmt.Errorf("make canonical: %w", err)
	}
	return string(v), nil
}

// moment is a time in PostgreSQL's JSON format with time zone UTC.
type moment time.Time

func (m moment) MarshalText() ([]byte, error) {
	return time.Time(m).UTC().AppendFormat(nil, "2006-01-02T15:04:05.999999-07:00"), nil
}

func at(t time.Time) *moment { return (*moment)(&t) }

func atOrNull(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	return at(*t)
}

// bytesText returns the text of a bytea.
func bytesText(b []byte) string { return `\x` + hex.EncodeToString(b) }

// textOrNull converts an empty text to NULL.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// writer collects rows of tables.
type writer struct {
	tables map[string][]string
	err    error
}

func writeAll[R any](w *writer, table string, rows iter.Seq[R]) {
	w.tables[table] = []string{} // not nil if the table has no rows
	for row := range rows {
		w.add(table, row)
	}
}

func (w *writer) add(table string, row any) {
	encoded, err := json.Marshal(row)
	var text string
	if err == nil {
		text, err = canonical(encoded)
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("encode a row of %s: %w", table, err)
	}
	w.tables[table] = append(w.tables[table], text)
}

func (w *writer) done() (map[string][]string, error) {
	for _, rows := range w.tables {
		slices.Sort(rows)
	}
	return w.tables, w.err
}

// beginner begins transactions: a pool or a connection.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Read returns all rows of a table in the database, with all columns, in the form of Tables.
func Read(ctx context.Context, db beginner, table string) ([]string, error) {
	rows := []string{}
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'`); err != nil {
			return fmt.Errorf("set time zone: %w", err)
		}
		// ForEachRow returns its error
		found, _ := tx.Query(ctx, `SELECT row_to_json(t)::text FROM `+pgx.Identifier{table}.Sanitize()+` AS t`)
		var row []byte
		_, err := pgx.ForEachRow(found, []any{&row}, func() error {
			text, err := canonical(row)
			rows = append(rows, text)
			return err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", table, err)
	}
	slices.Sort(rows)
	return rows, nil
}
