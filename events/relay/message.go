package relay

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

// Headers of messages.
const (
	// LeafHeader has the leaf of the event in the Merkle tree, in base64.
	LeafHeader = "Novelgate-Leaf"
	// SaltHeader has the salt (UUID) of a personal part: the entry of the ledger has SHA-256(salt ‖ personal).
	SaltHeader = "Novelgate-Salt"
	// AuthorHeader has the id of the author of a comment, with the personal parts of its events: author.erased names the
	// author by it.
	AuthorHeader = "Novelgate-Author"
)

// Partitions is the number of partitions. Consumers can divide the novels among them by partition.
const Partitions = 64

// partition returns the partition of a novel, or of an aggregate that belongs to no novel.
func partition(id uuid.UUID) int { return int(id[0]) % Partitions }

// message is the content of an event's messages in both streams.
type message struct {
	row     *eventlog.Row
	leaf    string
	author  string // id of the author of the comment; "" without one
	subject string // without the prefix of a stream
	event   []byte // CloudEvent
}

// leafOf returns the leaf of an event in base64. It commits to the whole event, including its batch.
func leafOf(row *eventlog.Row) (string, error) {
	entry, err := ledger.AppendEntry(nil, row)
	if err != nil {
		return "", err
	}
	leaf := tlog.RecordHash(entry)
	return base64.StdEncoding.EncodeToString(leaf[:]), nil
}

func (m *message) mainPart() *nats.Msg {
	return &nats.Msg{Data: m.event, Header: nats.Header{"Content-Type": {eventlog.CloudEventType}}}
}

func (m *message) personalPart() *nats.Msg {
	part := &nats.Msg{Data: m.row.Personal, Header: nats.Header{}}
	if m.row.Salt.Valid {
		part.Header.Set(SaltHeader, m.row.Salt.UUID.String())
	}
	if m.author != "" {
		part.Header.Set(AuthorHeader, m.author)
	}
	return part
}

// messages returns the messages of events.
func (r *Relay) messages(ctx context.Context, rows []eventlog.Row) ([]message, error) {
	novels, err := r.novels(ctx, rows)
	if err != nil {
		return nil, err
	}
	list := make([]message, len(rows))
	for i := range rows {
		m, row := &list[i], &rows[i]
		m.row, m.subject = row, fmt.Sprintf("%02d.%s", partition(novels[row.StreamID]), row.Type)
		if m.leaf, err = leafOf(row); err != nil {
			return nil, err
		}
		if m.event, err = eventlog.AppendCloudEvent(nil, row, "", nil); err != nil {
			return nil, err
		}
		if m.author, err = r.author(ctx, row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

const authorKeySQL = `SELECT author_key((SELECT value FROM settings WHERE name = 'author_secret'), $1)`

// author returns the id of the author of a comment, for all events of the comment; "" for erased and other events.
func (r *Relay) author(ctx context.Context, row *eventlog.Row) (string, error) {
	if row.StreamType != events.PostStream || row.Personal == nil {
		return "", nil
	}
	var of struct {
		IntegrationID uuid.UUID `json:"integrationId"` // only of a report, which may come from another integration
		ExternalUUID  string    `json:"uuid"`
	}
	if err := json.Unmarshal(row.Personal, &of); err != nil {
		return "", fmt.Errorf("find the author of event %d: %w", row.LogIndex, err)
	}
	if of.IntegrationID == uuid.Nil {
		integration, _ := events.SplitSource(row.Source)
		of.IntegrationID = integration.UUID
	}
	key, known := r.authorKeys[of.IntegrationID]
	if !known {
		if err := r.db.QueryRow(ctx, authorKeySQL, of.IntegrationID).Scan(&key); err != nil {
			return "", fmt.Errorf("read the author key of integration %s: %w", of.IntegrationID, err)
		}
		r.authorKeys[of.IntegrationID] = key
	}
	return events.AuthorID(key, of.ExternalUUID).String(), nil
}

// novelsSQL finds the novels of threads and comments, which their first events name. $1: streams.
const novelsSQL = `SELECT stream_id, data ->> 'novelId' FROM events WHERE stream_id = ANY ($1) AND stream_version = 1`

// novels returns the novel of each stream of the events, or the stream's own id if it belongs to no novel.
func (r *Relay) novels(ctx context.Context, list []eventlog.Row) (map[uuid.UUID]uuid.UUID, error) {
	novels := map[uuid.UUID]uuid.UUID{}
	var unknown []uuid.UUID
	for i := range list {
		row := &list[i]
		switch {
		case row.StreamType != events.ThreadStream && row.StreamType != events.PostStream:
			novels[row.StreamID] = row.StreamID
		case row.StreamVersion > 1:
			unknown = append(unknown, row.StreamID)
		default:
			var of struct {
				NovelID uuid.UUID `json:"novelId"`
			}
			if err := json.Unmarshal(row.Data, &of); err != nil {
				return nil, fmt.Errorf("find the novel of event %d: %w", row.LogIndex, err)
			}
			novels[row.StreamID] = of.NovelID
		}
	}
	if len(unknown) == 0 {
		return novels, nil
	}
	rows, _ := r.db.Query(ctx, novelsSQL, unknown) // ForEachRow returns its error
	var stream, novel uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&stream, &novel}, func() error { novels[stream] = novel; return nil })
	if err != nil {
		return nil, fmt.Errorf("find the novels of comments: %w", err)
	}
	return novels, nil
}
