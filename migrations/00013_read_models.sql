-- The asynchronous projections novels and activity, the views for analysts, and the role of analysts.

-- +goose Up
CREATE TABLE novels (
    novel_id       uuid        NOT NULL,
    title          text        NOT NULL,
    slug           text        NOT NULL,
    author         text        NOT NULL,
    synopsis       text        NOT NULL,
    cover_url      text        NOT NULL,
    genres         text[]      NOT NULL,
    language       text        NOT NULL,
    reading_status text        NOT NULL,
    state          text        NOT NULL,
    owner_id       uuid,
    created_by     uuid,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz,
    updates        integer     NOT NULL DEFAULT 0,
    moderated_at   timestamptz,
    moderations    integer     NOT NULL DEFAULT 0,
    stream_version integer     NOT NULL CHECK (stream_version > 0),
    CONSTRAINT novels_pkey PRIMARY KEY (novel_id)
) WITH (fillfactor = 80);

COMMENT ON TABLE novels IS 'Projection novels: one row per novel with its current state and a summary of its history. Rebuildable from events.';
COMMENT ON COLUMN novels.synopsis IS 'Empty when there is none; so are cover_url, language and reading_status.';
COMMENT ON COLUMN novels.owner_id IS 'Integration that owns the novel now; NULL when the host platform does.';
COMMENT ON COLUMN novels.created_by IS 'Integration that created the novel; NULL when the host platform did.';
COMMENT ON COLUMN novels.updates IS 'Number of updates, including those without changes.';
COMMENT ON COLUMN novels.moderations IS 'Number of approvals, rejections and publications by staff after its creation.';
COMMENT ON COLUMN novels.stream_version IS 'Version of the novel''s stream that this row reflects: earlier events are not applied again.';

-- The counters below are one projection, activity: the same events change all of them, so the events are read once, and the counters
-- always agree. A row is updated in place while its page has room (HOT), because no index has a counter.
CREATE TABLE activity_applied (
    one_row  boolean NOT NULL DEFAULT true CHECK (one_row),
    position bigint  NOT NULL,
    CONSTRAINT activity_applied_pkey PRIMARY KEY (one_row)
) WITH (fillfactor = 10);

COMMENT ON TABLE activity_applied IS 'Projection activity: how far its tables have counted the log.';
COMMENT ON COLUMN activity_applied.position IS 'Events with a smaller log_index are not counted again.';

CREATE TABLE daily_facts (
    day            date    NOT NULL,
    integration_id uuid    NOT NULL,
    novel_id       uuid    NOT NULL,
    posts          integer NOT NULL,
    novels_created integer NOT NULL,
    novels_updated integer NOT NULL,
    CONSTRAINT daily_facts_pkey PRIMARY KEY (day, integration_id, novel_id)
) WITH (fillfactor = 70);

COMMENT ON TABLE daily_facts IS 'Projection activity: counts per UTC day, integration and novel. Rebuildable from events.';

CREATE TABLE thread_activity (
    thread_id         uuid        NOT NULL,
    novel_id          uuid        NOT NULL,
    posts             bigint      NOT NULL,
    replies           bigint      NOT NULL,
    first_post_id     uuid        NOT NULL,
    first_post_at     timestamptz NOT NULL,
    last_post_id      uuid        NOT NULL,
    last_post_at      timestamptz NOT NULL,
    first_received_at timestamptz NOT NULL,
    last_received_at  timestamptz NOT NULL,
    CONSTRAINT thread_activity_pkey PRIMARY KEY (thread_id)
) WITH (fillfactor = 50);

COMMENT ON TABLE thread_activity IS 'Projection activity: counts of imports per thread. Rebuildable from events.';

CREATE TABLE integration_activity (
    integration_id    uuid        NOT NULL,
    posts             bigint      NOT NULL,
    replies           bigint      NOT NULL,
    novels_created    bigint      NOT NULL,
    novels_updated    bigint      NOT NULL,
    first_activity_at timestamptz NOT NULL,
    last_activity_at  timestamptz NOT NULL,
    CONSTRAINT integration_activity_pkey PRIMARY KEY (integration_id)
) WITH (fillfactor = 20);

COMMENT ON TABLE integration_activity IS 'Projection activity: counts of deliveries per integration. Rebuildable from events.';

CREATE VIEW analytics.novels AS
SELECT novel_id, title, slug, author, nullif(synopsis, '') AS synopsis, nullif(cover_url, '') AS cover_url, genres,
       nullif(language, '') AS language, nullif(reading_status, '') AS reading_status, state, owner_id, created_by,
       created_at, updated_at, updates, moderated_at, moderations, stream_version AS version
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
COMMENT ON COLUMN analytics.novels.created_by IS 'Integration that created the novel; NULL when the host platform did. Stays when the host platform adopts the novel.';
COMMENT ON COLUMN analytics.novels.created_at IS 'When the novel was created.';
COMMENT ON COLUMN analytics.novels.updated_at IS 'When it was last updated, maybe without changes; NULL if never.';
COMMENT ON COLUMN analytics.novels.updates IS 'Number of updates, including those without changes.';
COMMENT ON COLUMN analytics.novels.moderated_at IS 'When staff last approved, rejected or published it; NULL if never since its creation.';
COMMENT ON COLUMN analytics.novels.moderations IS 'Number of approvals, rejections and publications by staff since its creation.';
COMMENT ON COLUMN analytics.novels.version IS 'Number of events in the history of its title.';

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

COMMENT ON VIEW analytics.thread_activity IS 'One row per thread with comments: numbers of comments and authors, and times. Hidden and erased comments count, because they were imported. Projection: activity.';
COMMENT ON COLUMN analytics.thread_activity.thread_id IS 'Discussion thread, as the API returned it (threadId).';
COMMENT ON COLUMN analytics.thread_activity.novel_id IS 'Novel that the thread discusses; a novel has one thread.';
COMMENT ON COLUMN analytics.thread_activity.posts IS 'Imported comments, including replies, and hidden and erased comments.';
COMMENT ON COLUMN analytics.thread_activity.replies IS 'Comments among these that are replies.';
COMMENT ON COLUMN analytics.thread_activity.participants IS 'Distinct authors of the comments, counted in analytics.posts at query time. A person who writes on two partner platforms is two authors.';
COMMENT ON COLUMN analytics.thread_activity.first_post_id IS 'Comment that was written first; of several at the same instant, the one received first.';
COMMENT ON COLUMN analytics.thread_activity.first_post_at IS 'When it was written, according to the partner.';
COMMENT ON COLUMN analytics.thread_activity.last_post_id IS 'Comment that was written last; of several at the same instant, the one received last.';
COMMENT ON COLUMN analytics.thread_activity.last_post_at IS 'When it was written, according to the partner.';
COMMENT ON COLUMN analytics.thread_activity.first_received_at IS 'When the first comment was received, whenever it was written.';
COMMENT ON COLUMN analytics.thread_activity.last_received_at IS 'When the latest comment was received, whenever it was written.';

CREATE VIEW analytics.integration_activity AS
SELECT i.integration_id, i.posts, i.replies, coalesce(a.authors, 0) AS authors, i.novels_created, i.novels_updated, i.first_activity_at,
       i.last_activity_at
FROM integration_activity AS i
LEFT JOIN (SELECT integration_id, count(*) AS authors FROM authors GROUP BY integration_id) AS a USING (integration_id);

COMMENT ON VIEW analytics.integration_activity IS 'One row per partner integration with deliveries: numbers and times. Deliveries that staff hid, rejected or erased later count. Projection: activity.';
COMMENT ON COLUMN analytics.integration_activity.integration_id IS 'Partner integration: analytics.integrations has its name.';
COMMENT ON COLUMN analytics.integration_activity.posts IS 'Imported comments, including replies, and hidden and erased comments.';
COMMENT ON COLUMN analytics.integration_activity.replies IS 'Comments among these that are replies.';
COMMENT ON COLUMN analytics.integration_activity.authors IS 'Distinct users of the partner who have commented, counted in analytics.authors at query time.';
COMMENT ON COLUMN analytics.integration_activity.novels_created IS 'Novels that the integration created, including those created by a comment.';
COMMENT ON COLUMN analytics.integration_activity.novels_updated IS 'Updates of novels by the integration, including those without changes.';
COMMENT ON COLUMN analytics.integration_activity.first_activity_at IS 'When the first of these deliveries was received.';
COMMENT ON COLUMN analytics.integration_activity.last_activity_at IS 'When the latest of these deliveries was received.';

CREATE VIEW analytics.daily_authors AS
SELECT DISTINCT (written_at AT TIME ZONE 'UTC')::date AS day, integration_id, novel_id, author_id
FROM posts WHERE author_id IS NOT NULL;

COMMENT ON VIEW analytics.daily_authors IS 'One row per author, novel and UTC day on which the author wrote at least one comment on the novel. Count distinct authors over any period here. Projection: posts.';
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

COMMENT ON VIEW analytics.daily_facts IS 'One row per UTC day, partner integration and novel with at least one count. A comment counts on the day on which it was written, according to the partner: a late or backdated delivery adds to a past day, so no day is final. Hidden and erased comments count. Projection: activity.';
COMMENT ON COLUMN analytics.daily_facts.day IS 'UTC day on which the comments were written, and on which creations and updates of novels were received.';
COMMENT ON COLUMN analytics.daily_facts.integration_id IS 'Partner integration that delivered them. Actions of staff on novels do not count.';
COMMENT ON COLUMN analytics.daily_facts.novel_id IS 'Novel that they are about.';
COMMENT ON COLUMN analytics.daily_facts.posts IS 'Comments written that day, including replies, and hidden and erased comments.';
COMMENT ON COLUMN analytics.daily_facts.authors IS 'Distinct authors of these comments, counted in analytics.daily_authors at query time. Do not add these numbers up over days or novels: count in analytics.daily_authors instead.';
COMMENT ON COLUMN analytics.daily_facts.novels_created IS '1 when the integration created the novel that day, otherwise 0.';
COMMENT ON COLUMN analytics.daily_facts.novels_updated IS 'Updates of the novel by the integration that day, including those without changes.';

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

CREATE VIEW analytics.freshness AS
SELECT p.name AS projection, p.generation, p.state, p.position,
       (SELECT coalesce(max(e.log_index) + 1, 0) FROM events AS e) - p.position AS lag_events,
       coalesce(greatest(extract(epoch FROM statement_timestamp() - oldest.recorded_at), 0), 0)::double precision AS lag_seconds,
       least(coalesce(oldest.recorded_at, statement_timestamp()), statement_timestamp()) AS as_of
FROM projections AS p
LEFT JOIN events AS oldest ON oldest.log_index = p.position;

COMMENT ON VIEW analytics.freshness IS 'One row per projection: the lag of the views that depend on it. The description of each view names its projection.';
COMMENT ON COLUMN analytics.freshness.projection IS 'Name of the projection.';
COMMENT ON COLUMN analytics.freshness.generation IS 'Generation of the code that built its tables; a program with a later one rebuilds them.';
COMMENT ON COLUMN analytics.freshness.state IS 'running or failed. failed: stopped at an event that it cannot apply, until an operator intervenes.';
COMMENT ON COLUMN analytics.freshness.position IS 'Number of applied events: those with a smaller log_index.';
COMMENT ON COLUMN analytics.freshness.lag_events IS 'Events that are recorded and not applied yet.';
COMMENT ON COLUMN analytics.freshness.lag_seconds IS 'Age of the oldest of these events; 0 without any.';
COMMENT ON COLUMN analytics.freshness.as_of IS 'Everything committed before this time is in the views. Transactions that were running at this time are not, and may have an earlier received_at.';

-- The role of analysts may only read the schema analytics. Roles belong to the whole cluster, and other databases may be migrated at
-- the same time. If this role lacks the right to create roles, or to change the rights of PUBLIC, this step prints a notice and
-- continues; docs/operations.md has the statements for a role with that right.
-- +goose StatementBegin
DO $$
DECLARE
    routine regprocedure;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'novelgate_analytics') THEN
        BEGIN
            CREATE ROLE novelgate_analytics NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL; -- the migration of another database was faster
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'The role novelgate_analytics was not created: % may not create roles.', current_user
                    USING HINT = 'See "Analysts" in docs/operations.md.';
        END;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'novelgate_analytics') THEN
        GRANT USAGE ON SCHEMA analytics TO novelgate_analytics;
        GRANT SELECT ON ALL TABLES IN SCHEMA analytics TO novelgate_analytics;
        ALTER DEFAULT PRIVILEGES IN SCHEMA analytics GRANT SELECT ON TABLES TO novelgate_analytics;
    END IF;

    -- By default PUBLIC may execute every function. Functions of extensions are left unchanged. A function in a view runs with the rights
    -- of the user who queries the view: functions of the present views keep theirs, and a later one needs GRANT EXECUTE TO PUBLIC.
    FOR routine IN
        SELECT p.oid::regprocedure FROM pg_proc AS p
        WHERE p.pronamespace IN ('public'::regnamespace, 'analytics'::regnamespace)
          AND pg_has_role(p.proowner, 'USAGE')
          AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
          AND NOT EXISTS (
              SELECT FROM pg_depend AS d
              JOIN pg_rewrite AS w ON w.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
              JOIN pg_class AS v ON v.oid = w.ev_class AND v.relnamespace = 'analytics'::regnamespace
              WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid)
    LOOP
        EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', routine);
    END LOOP;
    ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON ROUTINES FROM PUBLIC;

    IF (SELECT pg_has_role(n.nspowner, 'USAGE') FROM pg_namespace AS n WHERE n.nspname = 'public') THEN
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    ELSE
        RAISE NOTICE 'Everybody may still create tables in schema public if its owner lets them: % does not own it.', current_user;
    END IF;
    IF (SELECT pg_has_role(d.datdba, 'USAGE') FROM pg_database AS d WHERE d.datname = current_database()) THEN
        EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    ELSE
        RAISE NOTICE 'Everybody may still create temporary tables: % does not own the database.', current_user;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- The role stays: it belongs to the cluster.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'novelgate_analytics') THEN
        ALTER DEFAULT PRIVILEGES IN SCHEMA analytics REVOKE SELECT ON TABLES FROM novelgate_analytics;
        REVOKE SELECT ON ALL TABLES IN SCHEMA analytics FROM novelgate_analytics;
        REVOKE USAGE ON SCHEMA analytics FROM novelgate_analytics;
    END IF;
END
$$;
-- +goose StatementEnd
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON ROUTINES TO PUBLIC;
DROP VIEW analytics.freshness, analytics.integrations, analytics.daily_facts, analytics.daily_authors,
          analytics.integration_activity, analytics.thread_activity, analytics.novels;
DROP TABLE integration_activity, thread_activity, daily_facts, activity_applied, novels;
