package analytics_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/projections"
)

// sampleDatabase returns a database with the comments of sample.csv, and how many they are. Recording times come from
// the file, so the projections are applied directly: the log would put in its own.
func sampleDatabase(t *testing.T) (pool *pgxpool.Pool, comments int) {
	t.Helper()
	file, err := os.Open("sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := &sample{partners: map[string]uuid.UUID{}, novels: map[string]uuid.UUID{}}
	for _, row := range rows[1:] {
		s.comment(t, row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9])
	}
	s.adopt("Moby-Dick")

	if pool, err = pgxpool.New(context.Background(), testdb.New(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, p := range append(projections.Inline(), projections.All()...) {
		if err := p.Apply(t.Context(), pool, s.log); err != nil {
			t.Fatalf("apply to %s: %v", p.Name(), err)
		}
	}
	return pool, len(rows) - 1
}

// sample gathers the events.
type sample struct {
	log      []events.Recorded
	partners map[string]uuid.UUID
	novels   map[string]uuid.UUID
	at       time.Time
}

func (s *sample) record(streamType string, stream uuid.UUID, version int, source, key string, event events.Event) {
	s.log = append(s.log, events.Recorded{
		Position: events.Position{TransactionID: uint64(1000 + len(s.log))}, StreamType: streamType, StreamID: stream,
		StreamVersion: version,
		ID:            key, Source: source, Event: event, RecordedAt: s.at,
	})
}

func (s *sample) comment(
	t *testing.T, receivedAt, partner, spelling, key, parent, author, username, chapter, writtenAt, content string,
) {
	t.Helper()
	s.at = moment(t, receivedAt)
	integration, known := s.partners[partner]
	if !known {
		integration = uuid.NewSHA1(uuid.NameSpaceDNS, []byte(partner))
		s.partners[partner] = integration
		s.record(events.IntegrationStream, integration, 1, "staff/integrations/"+integration.String(), "register",
			events.IntegrationRegistered{Name: partner, RegisteredAt: s.at})
	}
	id, known := s.novels[spelling]
	if !known {
		id = events.NovelID(title.Fold(spelling))
		s.novels[spelling] = id
		s.record(events.NovelStream, id, 1, events.PostNovelSource(integration), key, events.NovelCreated{
			Title: spelling, Slug: title.Slug(spelling), Author: novel.DefaultAuthor, OwnerID: &integration,
			State: string(novel.Approved),
		})
		s.record(events.ThreadStream, events.ThreadID(id), 1, events.PostThreadSource(integration), key,
			events.ThreadOpened{NovelID: id})
	}
	e := events.PostImported{
		IntegrationID: integration, NovelID: id, ThreadID: events.ThreadID(id),
		WrittenAt: moment(t, writtenAt),
		Comment:   &events.Comment{ExternalUUID: author, Username: username, Content: content},
	}
	if chapter != "" {
		e.ChapterNumber = jsontext.Value(chapter)
	}
	if parent != "" {
		replied := events.PostID(integration, parent)
		e.ParentPostID = &replied
	}
	s.record(events.PostStream, events.PostID(integration, key), 1, events.PostsSource(integration), key, e)
}

// adopt lets the host platform publish a novel of a partner.
func (s *sample) adopt(spelling string) {
	id := s.novels[spelling]
	s.record(events.NovelStream, id, 2, fmt.Sprintf("staff/novels/%s", id), "adopt",
		events.NovelPublished{Reason: "it is in the public domain"})
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}
