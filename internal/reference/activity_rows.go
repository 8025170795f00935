package reference

import "github.com/google/uuid"

type appliedRow struct {
	OneRow        bool   `json:"one_row"`
	TransactionID string `json:"transaction_id"`
	Position      int32  `json:"position"`
}

type dailyAuthorRow struct {
	AuthorID      uuid.UUID `json:"author_id"`
	NovelID       uuid.UUID `json:"novel_id"`
	Day           string    `json:"day"`
	IntegrationID uuid.UUID `json:"integration_id"`
}

type dailyFactsRow struct {
	Day           string    `json:"day"`
	IntegrationID uuid.UUID `json:"integration_id"`
	NovelID       uuid.UUID `json:"novel_id"`
	Posts         int       `json:"posts"`
	Authors       int       `json:"authors"`
	NovelsCreated int       `json:"novels_created"`
	NovelsUpdated int       `json:"novels_updated"`
}

type threadActivityRow struct {
	ThreadID        uuid.UUID `json:"thread_id"`
	NovelID         uuid.UUID `json:"novel_id"`
	Posts           int       `json:"posts"`
	Replies         int       `json:"replies"`
	Participants    int       `json:"participants"`
	FirstPostID     uuid.UUID `json:"first_post_id"`
	FirstPostAt     *moment   `json:"first_post_at"`
	LastPostID      uuid.UUID `json:"last_post_id"`
	LastPostAt      *moment   `json:"last_post_at"`
	FirstReceivedAt *moment   `json:"first_received_at"`
	LastReceivedAt  *moment   `json:"last_received_at"`
}

type integrationActivityRow struct {
	IntegrationID   uuid.UUID `json:"integration_id"`
	Posts           int       `json:"posts"`
	Replies         int       `json:"replies"`
	Authors         int       `json:"authors"`
	NovelsCreated   int       `json:"novels_created"`
	NovelsUpdated   int       `json:"novels_updated"`
	FirstActivityAt *moment   `json:"first_activity_at"`
	LastActivityAt  *moment   `json:"last_activity_at"`
}

func (a *activity) write(w *writer) {
	for _, table := range []string{
		"activity_applied", "daily_authors", "daily_facts", "thread_activity", "integration_activity",
	} {
		w.begin(table)
	}
	if a.applied != nil {
		w.add("activity_applied", a.applied)
	}
	for key, d := range a.days {
		w.add("daily_facts",
			dailyFactsRow{key.day, key.integration, key.novel, d.posts, len(d.authors), d.created, d.updated})
		for author := range d.authors {
			w.add("daily_authors", dailyAuthorRow{author, key.novel, key.day, key.integration})
		}
	}
	for id, t := range a.threads {
		w.add("thread_activity", threadActivityRow{
			id, t.novel, t.posts, t.replies, len(t.authors), t.first, at(t.firstAt), t.last, at(t.lastAt), at(t.firstReceived),
			at(t.lastReceived),
		})
	}
	for id, i := range a.integrations {
		w.add("integration_activity", integrationActivityRow{
			id, i.posts, i.replies, len(i.authors), i.created, i.updated, at(i.first), at(i.last),
		})
	}
}
