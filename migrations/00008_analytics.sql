-- The views for analysts.

-- +goose Up
-- The planner removes the join from queries that select neither text nor key, because there is at most one event.
CREATE VIEW analytics.posts AS
SELECT p.post_id, p.thread_id, p.novel_id, p.integration_id, p.author_id, p.parent_post_id, p.chapter_number,
       CASE WHEN p.author_id IS NOT NULL AND NOT post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until)
            THEN CASE WHEN p.text_log_index IS NULL THEN e.personal ELSE t.personal END ->> 'content' END AS content,
       p.written_at, p.recorded_at AS received_at, e.event_id AS idempotency_key,
       post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) AS hidden, d.member_id, p.depth, p.changed_at, p.root_post_id,
       p.parent_lost, p.edited_at, p.withdrawn
FROM posts p
LEFT JOIN author_decisions d ON d.author_id = p.author_id
LEFT JOIN events e ON e.log_index = p.log_index
LEFT JOIN events t ON t.log_index = p.text_log_index;

COMMENT ON VIEW analytics.posts IS 'One row per imported comment. Projection: posts.';
COMMENT ON COLUMN analytics.posts.post_id IS 'The comment, as the API returned it (postId).';
COMMENT ON COLUMN analytics.posts.thread_id IS 'Discussion thread.';
COMMENT ON COLUMN analytics.posts.novel_id IS 'Novel of the thread.';
COMMENT ON COLUMN analytics.posts.integration_id IS 'Partner integration that delivered it.';
COMMENT ON COLUMN analytics.posts.author_id IS 'Who wrote it: analytics.authors.author_id. NULL once the comment was erased or withdrawn.';
COMMENT ON COLUMN analytics.posts.parent_post_id IS 'The comment replied to; NULL when top-level.';
COMMENT ON COLUMN analytics.posts.chapter_number IS 'Chapter, exact decimal; 0 is the prologue; NULL for a comment on the novel as a whole.';
COMMENT ON COLUMN analytics.posts.written_at IS 'When the comment was written, according to the partner; otherwise the time of receipt.';
COMMENT ON COLUMN analytics.posts.received_at IS 'When the comment was received.';
COMMENT ON COLUMN analytics.posts.idempotency_key IS 'Idempotency-Key of the delivery: the partner''s own identifier of the comment.';
COMMENT ON COLUMN analytics.posts.content IS 'Plain text as delivered, after the latest edit; NULL while staff hide the comment, and once it was erased or withdrawn.';
COMMENT ON COLUMN analytics.posts.hidden IS 'Whether staff hide the comment, by itself or with all of its author.';
COMMENT ON COLUMN analytics.posts.member_id IS 'Member of the host platform to whom staff linked the author, now; NULL when not linked.';
COMMENT ON COLUMN analytics.posts.depth IS '0 for a top-level comment, 1 for an answer to it, and so on.';
COMMENT ON COLUMN analytics.posts.changed_at IS 'When the last event was recorded that changed this row: import, edit, withdrawal, hidden, restored or link. An erasure of an author is in analytics.erased instead.';
COMMENT ON COLUMN analytics.posts.root_post_id IS 'Top-level comment of a reply; NULL when top-level.';
COMMENT ON COLUMN analytics.posts.parent_lost IS 'Whether the comment is top-level because its parent was not in the thread.';
COMMENT ON COLUMN analytics.posts.edited_at IS 'When text or chapter were last edited, according to the partner; NULL if never.';
COMMENT ON COLUMN analytics.posts.withdrawn IS 'Whether the partner withdrew the comment. Its text and author are erased.';

CREATE VIEW analytics.authors AS
SELECT a.author_id, a.integration_id, a.external_uuid, a.display_name, a.display_name_at, a.first_seen_at,
       d.member_id, coalesce(d.blocked, false) AS blocked, a.changed_at
FROM authors a
LEFT JOIN author_decisions d ON d.author_id = a.author_id;

COMMENT ON VIEW analytics.authors IS 'One row per partner''s user who has commented. Projection: posts.';
COMMENT ON COLUMN analytics.authors.author_id IS 'The author; derived from integration_id, external_uuid and a secret.';
COMMENT ON COLUMN analytics.authors.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN analytics.authors.external_uuid IS 'The partner''s identifier of the user (uuid).';
COMMENT ON COLUMN analytics.authors.display_name IS 'User name on the comment that was written last.';
COMMENT ON COLUMN analytics.authors.display_name_at IS 'When that comment was written.';
COMMENT ON COLUMN analytics.authors.first_seen_at IS 'When the first comment of the author was received.';
COMMENT ON COLUMN analytics.authors.member_id IS 'Member of the host platform to whom staff linked the author; NULL when not linked.';
COMMENT ON COLUMN analytics.authors.blocked IS 'Whether comments of the author are refused.';
COMMENT ON COLUMN analytics.authors.changed_at IS 'When the last event was recorded that changed this row: a comment with the name, a link or a block.';

CREATE VIEW analytics.erased AS
SELECT stream_id AS author_id, (data ->> 'integrationId')::uuid AS integration_id, recorded_at AS erased_at
FROM events WHERE event_type = 'author.erased.v1';

COMMENT ON VIEW analytics.erased IS 'One row per erasure of an author, whose row in authors is gone unless the author commented again.';
COMMENT ON COLUMN analytics.erased.author_id IS 'The author, as analytics.authors.author_id was.';
COMMENT ON COLUMN analytics.erased.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN analytics.erased.erased_at IS 'When the erasure was recorded. What was received before is erased.';

CREATE VIEW analytics.novels AS
SELECT novel_id, title, slug, author, nullif(synopsis, '') AS synopsis, nullif(cover_url, '') AS cover_url, genres,
       nullif(language, '') AS language, nullif(reading_status, '') AS reading_status, state, owner_id, created_by,
       created_at, updated_at, updates, moderated_at, moderations, stream_version AS version,
       greatest(created_at, updated_at, moderated_at) AS changed_at
FROM novels;

COMMENT ON VIEW analytics.novels IS 'One row per novel with its current state and a summary of its history. Projection: novels.';
COMMENT ON COLUMN analytics.novels.novel_id IS 'The novel, as the API returned it (novelId).';
COMMENT ON COLUMN analytics.novels.title IS 'Title as first spelled; never changes.';
COMMENT ON COLUMN analytics.novels.slug IS 'Part of the novel''s URL; never changes.';
COMMENT ON COLUMN analytics.novels.author IS 'Author of the novel; Unknown if not given.';
COMMENT ON COLUMN analytics.novels.synopsis IS 'Plain text; NULL when there is none.';
COMMENT ON COLUMN analytics.novels.cover_url IS 'Address of the cover; NULL when there is none.';
COMMENT ON COLUMN analytics.novels.genres IS 'Genres in the order given; empty when there are none.';
COMMENT ON COLUMN analytics.novels.language IS 'Original language as given; NULL if not given.';
COMMENT ON COLUMN analytics.novels.reading_status IS 'ongoing, completed or hiatus; NULL if not given.';
COMMENT ON COLUMN analytics.novels.state IS 'pending, approved (a partner''s), published (the host platform''s, canonical) or rejected.';
COMMENT ON COLUMN analytics.novels.owner_id IS 'Integration that owns the novel now: analytics.integrations.integration_id. NULL when the host platform does.';
COMMENT ON COLUMN analytics.novels.created_by IS 'Integration that created the novel, for good; NULL when the host platform did.';
COMMENT ON COLUMN analytics.novels.created_at IS 'When the novel was created.';
COMMENT ON COLUMN analytics.novels.updated_at IS 'When it was last updated, maybe without changes; NULL if never.';
COMMENT ON COLUMN analytics.novels.updates IS 'Number of updates, also without changes.';
COMMENT ON COLUMN analytics.novels.moderated_at IS 'When staff last approved, rejected or published it; NULL if never.';
COMMENT ON COLUMN analytics.novels.moderations IS 'Number of these decisions since its creation.';
COMMENT ON COLUMN analytics.novels.version IS 'Number of events in the history of its title.';
COMMENT ON COLUMN analytics.novels.changed_at IS 'The latest of created_at, updated_at and moderated_at.';

-- Distinct authors are counted at query time: maintaining the counts took as much processor time as maintaining the table posts. Each
-- subquery returns at most one row per row of its view, so the planner removes it from queries that do not select it.
CREATE VIEW analytics.thread_activity AS
SELECT t.thread_id, t.novel_id, t.posts, t.replies, coalesce(p.participants, 0) AS participants, t.first_post_id, t.first_post_at,
       t.last_post_id, t.last_post_at, t.first_received_at, t.last_received_at
FROM thread_activity AS t
LEFT JOIN (
    SELECT thread_id, count(*) AS participants
    FROM (SELECT DISTINCT thread_id, author_id FROM posts WHERE author_id IS NOT NULL) AS distinct_authors GROUP BY thread_id
) AS p USING (thread_id);

COMMENT ON VIEW analytics.thread_activity IS 'One row per thread with comments. Projection: activity.';
COMMENT ON COLUMN analytics.thread_activity.thread_id IS 'Discussion thread, as the API returned it (threadId).';
COMMENT ON COLUMN analytics.thread_activity.novel_id IS 'Novel that the thread discusses; a novel has one thread.';
COMMENT ON COLUMN analytics.thread_activity.posts IS 'Imported comments, including replies.';
COMMENT ON COLUMN analytics.thread_activity.replies IS 'Comments among these that are replies.';
COMMENT ON COLUMN analytics.thread_activity.participants IS 'Distinct authors of the comments. A person who writes on two platforms is two authors.';
COMMENT ON COLUMN analytics.thread_activity.first_post_id IS 'Comment that was written first, then received first.';
COMMENT ON COLUMN analytics.thread_activity.first_post_at IS 'When it was written.';
COMMENT ON COLUMN analytics.thread_activity.last_post_id IS 'Comment that was written last, then received last.';
COMMENT ON COLUMN analytics.thread_activity.last_post_at IS 'When it was written.';
COMMENT ON COLUMN analytics.thread_activity.first_received_at IS 'When the first comment was received, whenever it was written.';
COMMENT ON COLUMN analytics.thread_activity.last_received_at IS 'When the latest comment was received, whenever it was written.';

CREATE VIEW analytics.integration_activity AS
SELECT i.integration_id, i.posts, i.replies, coalesce(a.authors, 0) AS authors, i.novels_created, i.novels_updated, i.first_activity_at,
       i.last_activity_at
FROM integration_activity AS i
LEFT JOIN (SELECT integration_id, count(*) AS authors FROM authors GROUP BY integration_id) AS a USING (integration_id);

COMMENT ON VIEW analytics.integration_activity IS 'One row per partner integration with deliveries: numbers and times. Projection: activity.';
COMMENT ON COLUMN analytics.integration_activity.integration_id IS 'Partner integration: analytics.integrations has its name.';
COMMENT ON COLUMN analytics.integration_activity.posts IS 'Imported comments, including replies.';
COMMENT ON COLUMN analytics.integration_activity.replies IS 'Comments among these that are replies.';
COMMENT ON COLUMN analytics.integration_activity.authors IS 'Distinct users of the partner who have commented.';
COMMENT ON COLUMN analytics.integration_activity.novels_created IS 'Novels that the integration created, also by a comment.';
COMMENT ON COLUMN analytics.integration_activity.novels_updated IS 'Updates of novels, also without changes.';
COMMENT ON COLUMN analytics.integration_activity.first_activity_at IS 'When the first of these deliveries was received.';
COMMENT ON COLUMN analytics.integration_activity.last_activity_at IS 'When the latest of these deliveries was received.';

CREATE VIEW analytics.daily_authors AS
SELECT DISTINCT (written_at AT TIME ZONE 'UTC')::date AS day, integration_id, novel_id, author_id
FROM posts WHERE author_id IS NOT NULL;

COMMENT ON VIEW analytics.daily_authors IS 'One row per author, novel and UTC day with a comment. Count distinct authors over any period here. Projection: posts.';
COMMENT ON COLUMN analytics.daily_authors.day IS 'UTC day on which the comments were written.';
COMMENT ON COLUMN analytics.daily_authors.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN analytics.daily_authors.novel_id IS 'Novel that the comments are about.';
COMMENT ON COLUMN analytics.daily_authors.author_id IS 'The author: analytics.authors.author_id. Erased authors are not included.';

CREATE VIEW analytics.daily_facts AS
SELECT f.day, f.integration_id, f.novel_id, f.posts, coalesce(a.authors, 0)::integer AS authors, f.novels_created, f.novels_updated
FROM daily_facts AS f
LEFT JOIN (
    SELECT day, integration_id, novel_id, count(*) AS authors FROM analytics.daily_authors GROUP BY day, integration_id, novel_id
) AS a USING (day, integration_id, novel_id);

COMMENT ON VIEW analytics.daily_facts IS 'One row per UTC day, partner integration and novel with at least one count. Projection: activity.';
COMMENT ON COLUMN analytics.daily_facts.day IS 'UTC day on which comments were written, and creations and updates of novels were received.';
COMMENT ON COLUMN analytics.daily_facts.integration_id IS 'Partner integration that delivered them. Actions of staff on novels do not count.';
COMMENT ON COLUMN analytics.daily_facts.novel_id IS 'Novel that they are about.';
COMMENT ON COLUMN analytics.daily_facts.posts IS 'Comments written that day, including replies.';
COMMENT ON COLUMN analytics.daily_facts.authors IS 'Distinct authors of these comments. Do not add these numbers up over days or novels: count in analytics.daily_authors instead.';
COMMENT ON COLUMN analytics.daily_facts.novels_created IS '1 when the integration created the novel that day, otherwise 0.';
COMMENT ON COLUMN analytics.daily_facts.novels_updated IS 'Updates of the novel by the integration that day.';

CREATE VIEW analytics.integrations AS
SELECT integration_id, name, enabled, can_create_novels, can_post, review, registered_at
FROM integrations;

COMMENT ON VIEW analytics.integrations IS 'One row per partner integration. Always current: written together with the events.';
COMMENT ON COLUMN analytics.integrations.integration_id IS 'The integration.';
COMMENT ON COLUMN analytics.integrations.name IS 'Name of the partner platform, as staff call it.';
COMMENT ON COLUMN analytics.integrations.enabled IS 'Whether the service accepts requests from it.';
COMMENT ON COLUMN analytics.integrations.can_create_novels IS 'Whether it may create novels.';
COMMENT ON COLUMN analytics.integrations.can_post IS 'Whether it may import comments.';
COMMENT ON COLUMN analytics.integrations.review IS 'Whether its new novels wait for staff.';
COMMENT ON COLUMN analytics.integrations.registered_at IS 'When the integration was registered.';

-- On views, not on tables: the switch of a rebuild locks all tables of the views on its own ones.
CREATE VIEW analytics.comments AS
SELECT p.post_id, i.name AS partner, n.title,
       CASE WHEN p.root_post_id IS NULL THEN p.chapter_number ELSE root.chapter_number END AS chapter_number,
       a.display_name AS author, p.written_at, p.content, p.depth, p.parent_lost, p.hidden
FROM analytics.posts p
LEFT JOIN analytics.posts root ON root.post_id = p.root_post_id
LEFT JOIN analytics.integrations i ON i.integration_id = p.integration_id
LEFT JOIN analytics.novels n ON n.novel_id = p.novel_id
LEFT JOIN analytics.authors a ON a.author_id = p.author_id;

COMMENT ON VIEW analytics.comments IS 'One row per imported comment, with names instead of ids, for spreadsheets. Projections: posts, novels.';
COMMENT ON COLUMN analytics.comments.post_id IS 'The comment.';
COMMENT ON COLUMN analytics.comments.partner IS 'Name of the partner platform.';
COMMENT ON COLUMN analytics.comments.title IS 'Title of the novel.';
COMMENT ON COLUMN analytics.comments.chapter_number IS 'Chapter of the top-level comment; NULL for the novel as a whole.';
COMMENT ON COLUMN analytics.comments.author IS 'Display name; NULL once erased.';
COMMENT ON COLUMN analytics.comments.written_at IS 'As in posts, like the columns below.';
COMMENT ON COLUMN analytics.comments.content IS 'NULL while hidden, and once erased.';
COMMENT ON COLUMN analytics.comments.depth IS '0 for a top-level comment.';
COMMENT ON COLUMN analytics.comments.parent_lost IS 'Whether it is a reply whose parent was not in the thread.';
COMMENT ON COLUMN analytics.comments.hidden IS 'Whether staff hide it.';

CREATE VIEW analytics.freshness AS
SELECT p.name AS projection, p.generation, p.state, p.position,
       coalesce(last.log_index + 1, 0) - p.position AS lag_events,
       coalesce(greatest(extract(epoch FROM statement_timestamp() - oldest.recorded_at), 0), 0)::double precision AS lag_seconds,
       coalesce(oldest.recorded_at, last.recorded_at, statement_timestamp()) AS as_of
FROM projections AS p
LEFT JOIN events AS oldest ON oldest.log_index = p.position
LEFT JOIN (SELECT log_index, recorded_at FROM events ORDER BY log_index DESC LIMIT 1) AS last ON true;

COMMENT ON VIEW analytics.freshness IS 'One row per projection: the lag of the views that name it.';
COMMENT ON COLUMN analytics.freshness.projection IS 'Name of the projection.';
COMMENT ON COLUMN analytics.freshness.generation IS 'Generation of the code that built its tables; a program with a later one rebuilds them.';
COMMENT ON COLUMN analytics.freshness.state IS 'running or failed. failed: stopped at an event that it cannot apply, until an operator intervenes.';
COMMENT ON COLUMN analytics.freshness.position IS 'Number of applied events: those with a smaller log_index.';
COMMENT ON COLUMN analytics.freshness.lag_events IS 'Events that are recorded and not applied yet.';
COMMENT ON COLUMN analytics.freshness.lag_seconds IS 'Age of the oldest of these events; 0 without any.';
COMMENT ON COLUMN analytics.freshness.as_of IS 'Everything recorded before this time is in the views, and nothing will be added before it.';

-- +goose Down
DROP VIEW analytics.freshness, analytics.comments, analytics.integrations, analytics.daily_facts, analytics.daily_authors, analytics.integration_activity,
          analytics.thread_activity, analytics.novels, analytics.erased, analytics.authors, analytics.posts;
