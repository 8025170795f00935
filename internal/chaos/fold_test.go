package chaos_test

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/title"
)

// foldQueries render the rows of a table as the naive fold does. Times are microseconds.
var foldQueries = map[string]string{
	"title_lookup": `SELECT concat_ws('|', folded_title, novel_id, slug, title, state, coalesce(owner_id::text, '-'), stream_version,
		coalesce(details->>'author', ''), coalesce(details->>'synopsis', ''), coalesce(details->>'coverUrl', ''),
		coalesce((SELECT string_agg(g, ',' ORDER BY n)
		    FROM jsonb_array_elements_text(details->'genres') WITH ORDINALITY AS x (g, n)), ''),
		coalesce(details->>'language', ''), coalesce(details->>'readingStatus', '')) FROM title_lookup`,
	"threads":      `SELECT concat_ws('|', novel_id, thread_id) FROM threads`,
	"integrations": `SELECT concat_ws('|', integration_id, name, enabled, can_create_novels, can_post, posts_per_minute, novels_per_minute, review, stream_version) FROM integrations`,
	"api_keys":     `SELECT concat_ws('|', key_id, encode(key_hash, 'hex'), prefix, integration_id, revoked_at IS NOT NULL) FROM api_keys`,
	"posts": `SELECT concat_ws('|', post_id, thread_id, novel_id, integration_id, author_id, coalesce(parent_post_id::text, '-'), coalesce(chapter_number::text, '-'),
		content, (extract(epoch FROM written_at) * 1000000)::bigint, (extract(epoch FROM recorded_at) * 1000000)::bigint, event_id) FROM posts`,
	"authors": `SELECT concat_ws('|', author_id, integration_id, external_uuid, display_name, (extract(epoch FROM display_name_at) * 1000000)::bigint,
		(extract(epoch FROM first_seen_at) * 1000000)::bigint) FROM authors`,
}

// catalogue is the state that the naive fold builds.
type catalogue struct {
	novels       map[uuid.UUID]*foldedNovel
	threads      map[uuid.UUID]uuid.UUID
	integrations map[uuid.UUID]*foldedIntegration
	keys         map[uuid.UUID]*foldedKey
	posts        []string
	authors      map[uuid.UUID]*foldedAuthor
}

type foldedNovel struct {
	events.NovelCreated
	id      uuid.UUID
	version int
}

type foldedIntegration struct {
	name                           string
	enabled, novels, posts, review bool
	postsPerMinute, perMinute      int
	version                        int
}

type foldedKey struct {
	events.KeyIssued
	integration uuid.UUID
	revoked     bool
}

type foldedAuthor struct {
	integration    uuid.UUID
	external, name string
	at, first      int64
}

// fold goes through the log event by event, and returns the rows of each table, sorted.
func fold(recorded []events.Recorded) map[string][]string {
	c := &catalogue{
		novels: map[uuid.UUID]*foldedNovel{}, threads: map[uuid.UUID]uuid.UUID{},
		integrations: map[uuid.UUID]*foldedIntegration{},
		keys:         map[uuid.UUID]*foldedKey{}, authors: map[uuid.UUID]*foldedAuthor{},
	}
	for i := range recorded {
		r := &recorded[i]
		switch r.StreamType {
		case events.NovelStream:
			c.novel(r)
		case events.IntegrationStream:
			c.integration(r)
		case events.ThreadStream:
			c.threads[r.Event.(events.ThreadOpened).NovelID] = r.StreamID
		case events.PostStream:
			c.post(r)
		}
	}
	return c.rows()
}

func (c *catalogue) novel(r *events.Recorded) {
	n := c.novels[r.StreamID]
	if n == nil {
		n = &foldedNovel{id: r.StreamID}
		c.novels[r.StreamID] = n
	}
	n.version++
	switch e := r.Event.(type) {
	case events.NovelCreated:
		n.NovelCreated = e
	case events.NovelUpdated:
		for _, change := range []struct{ from, to *string }{
			{e.Author, &n.Author},
			{e.Synopsis, &n.Synopsis},
			{e.CoverURL, &n.CoverURL},
			{e.Language, &n.Language},
			{e.ReadingStatus, &n.ReadingStatus},
		} {
			if change.from != nil {
				*change.to = *change.from
			}
		}
		if e.Genres != nil {
			n.Genres = *e.Genres
		}
	case events.NovelPublished:
		n.State, n.OwnerID = "published", nil
	case events.NovelApproved:
		n.State = "approved"
	case events.NovelRejected:
		n.State = "rejected"
	case events.NovelBarred:
		n.Title, n.Slug, n.State = e.Title, e.Slug, "rejected"
	case events.NovelUnbarred:
		n.State = "free"
	default: // no event of this stream
	}
}

func (c *catalogue) integration(r *events.Recorded) {
	i := c.integrations[r.StreamID]
	if i == nil {
		i = &foldedIntegration{enabled: true, postsPerMinute: 60, perMinute: 60}
		c.integrations[r.StreamID] = i
	}
	i.version++
	switch e := r.Event.(type) {
	case events.IntegrationRegistered:
		i.name = e.Name
	case events.IntegrationRenamed:
		i.name = e.Name
	case events.IntegrationEnabled:
		i.enabled = true
	case events.IntegrationDisabled:
		i.enabled = false
	case events.CapabilityEnabled:
		*map[string]*bool{"novels": &i.novels, "posts": &i.posts}[e.Capability] = true
	case events.CapabilityDisabled:
		*map[string]*bool{"novels": &i.novels, "posts": &i.posts}[e.Capability] = false
	case events.RateLimitSet:
		*map[string]*int{"novels": &i.perMinute, "posts": &i.postsPerMinute}[e.Operation] = e.PerMinute
	case events.ReviewModeSet:
		i.review = e.Review
	case events.KeyIssued:
		c.keys[e.KeyID] = &foldedKey{KeyIssued: e, integration: r.StreamID}
	case events.KeyExpirySet:
		c.keys[e.KeyID].ExpiresAt = &e.ExpiresAt
	case events.KeyRevoked:
		c.keys[e.KeyID].revoked = true
	default: // no event of this stream
	}
}

func (c *catalogue) post(r *events.Recorded) {
	e := r.Event.(events.PostImported)
	parent, chapter := "-", "-"
	if e.ParentPostID != nil {
		parent = e.ParentPostID.String()
	}
	if e.ChapterNumber != nil {
		chapter = string(e.ChapterNumber)
	}
	id, at := events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID), e.WrittenAt.UnixMicro()
	c.posts = append(c.posts,
		row(r.StreamID, e.ThreadID, e.NovelID, e.IntegrationID, id, parent, chapter, e.Comment.Content, at,
			r.RecordedAt.UnixMicro(), r.ID))
	a := c.authors[id]
	if a == nil {
		a = &foldedAuthor{
			integration: e.IntegrationID, external: e.Comment.ExternalUUID, at: at, first: r.RecordedAt.UnixMicro(),
		}
		c.authors[id] = a
	}
	if at >= a.at {
		a.at, a.name = at, e.Comment.Username
	}
}

func (c *catalogue) rows() map[string][]string {
	rows := map[string][]string{"posts": c.posts}
	add := func(table string, columns ...any) { rows[table] = append(rows[table], row(columns...)) }
	for _, n := range c.novels {
		owner := "-"
		if n.OwnerID != nil {
			owner = n.OwnerID.String()
		}
		add("title_lookup", title.Fold(n.Title), n.id, n.Slug, n.Title, n.State, owner, n.version, n.Author, n.Synopsis,
			n.CoverURL,
			strings.Join(n.Genres, ","), n.Language, n.ReadingStatus)
	}
	for novel, thread := range c.threads {
		add("threads", novel, thread)
	}
	for id, i := range c.integrations {
		add("integrations", id, i.name, sqlBool(i.enabled), sqlBool(i.novels), sqlBool(i.posts), i.postsPerMinute,
			i.perMinute, sqlBool(i.review), i.version)
	}
	for id, k := range c.keys {
		add("api_keys", id, hex.EncodeToString(k.SHA256), k.Prefix, k.integration, sqlBool(k.revoked))
	}
	for id, a := range c.authors {
		add("authors", id, a.integration, a.external, a.name, a.at, a.first)
	}
	for _, table := range rows {
		slices.Sort(table)
	}
	return rows
}

func sqlBool(b bool) string {
	if b {
		return "t"
	}
	return "f"
}
