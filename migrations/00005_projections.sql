-- The asynchronous projections posts, words, novels and activity, with their checkpoints.

-- +goose Up
CREATE TABLE projections (
    name             text        NOT NULL PRIMARY KEY,
    generation       integer     NOT NULL CHECK (generation > 0),
    position         bigint      NOT NULL CHECK (position >= 0),
    state            text        NOT NULL CHECK (state IN ('running', 'failed')),
    error            text,
    failed_log_index bigint,
    unknown_type     text,
    updated_at       timestamptz NOT NULL,
    CONSTRAINT projections_failed_has_error CHECK ((state = 'failed') = (failed_log_index IS NOT NULL) AND (state = 'running' OR error IS NOT NULL))
);

COMMENT ON TABLE projections IS 'Checkpoint of each asynchronous projection.';
COMMENT ON COLUMN projections.generation IS 'Generation of the code that writes the live tables. Replicas with code of another generation do not write them.';
COMMENT ON COLUMN projections.position IS 'Number of applied events: those with a smaller log_index.';
COMMENT ON COLUMN projections.state IS 'running; failed: stopped at an event that it cannot apply, until an operator intervenes.';
COMMENT ON COLUMN projections.error IS 'Why the projection has stopped or, while running, why it does not continue.';
COMMENT ON COLUMN projections.failed_log_index IS 'The event that it cannot apply.';
COMMENT ON COLUMN projections.unknown_type IS 'Type of the event after the checkpoint if the running replicas do not know it: the projection waits for a newer replica.';

CREATE TABLE projection_rebuilds (
    name         text        NOT NULL PRIMARY KEY,
    build        integer     NOT NULL CHECK (build > 1),
    generation   integer     NOT NULL CHECK (generation > 0),
    structure    text        NOT NULL,
    builder      uuid        NOT NULL,
    position     bigint      NOT NULL CHECK (position >= 0),
    events_total bigint      NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    error        text
);

COMMENT ON TABLE projection_rebuilds IS 'The latest rebuild of each projection. An interrupted one continues from here.';
COMMENT ON COLUMN projection_rebuilds.build IS 'Number of builds of the tables, including this one; <name>_<build> is the schema of the new tables.';
COMMENT ON COLUMN projection_rebuilds.generation IS 'Generation of the code that builds.';
COMMENT ON COLUMN projection_rebuilds.structure IS 'Digest of the structure of the live tables; if a migration changes it, the build starts again.';
COMMENT ON COLUMN projection_rebuilds.builder IS 'The process that builds. A process that takes over writes its own id, which stops the earlier one.';
COMMENT ON COLUMN projection_rebuilds.position IS 'Number of events in the new tables: those with a smaller log_index.';
COMMENT ON COLUMN projection_rebuilds.events_total IS 'Events in the log at the start of the rebuild.';
COMMENT ON COLUMN projection_rebuilds.finished_at IS 'When the new tables became the live ones; NULL before.';
COMMENT ON COLUMN projection_rebuilds.error IS 'Error that ended the latest attempt before the switch.';

-- One row per comment. The text is only in the event, which readers join by log_index: storing it again would double the size of a comment. Columns of fixed width first, to avoid padding.
CREATE TABLE posts (
    written_at        timestamptz NOT NULL,
    recorded_at       timestamptz NOT NULL,
    moderated_at      timestamptz,
    changed_at        timestamptz NOT NULL,
    edited_at         timestamptz,
    log_index         bigint      NOT NULL,
    text_log_index    bigint,
    content_bytes     integer,
    depth             integer     NOT NULL DEFAULT 0,
    post_id           uuid        NOT NULL,
    thread_id         uuid        NOT NULL,
    novel_id          uuid        NOT NULL,
    integration_id    uuid        NOT NULL,
    author_id         uuid,
    parent_post_id    uuid,
    root_post_id      uuid,
    hidden            boolean     NOT NULL DEFAULT false,
    parent_lost       boolean     NOT NULL DEFAULT false,
    withdrawn         boolean     NOT NULL DEFAULT false,
    vanished          boolean     NOT NULL DEFAULT false,
    chapter_number    numeric,
    CONSTRAINT posts_pkey PRIMARY KEY (post_id),
    CONSTRAINT posts_erased_as_a_whole CHECK ((author_id IS NULL) = (content_bytes IS NULL)),
    CONSTRAINT posts_withdrawn_is_erased CHECK (NOT withdrawn OR author_id IS NULL),
    CONSTRAINT posts_vanished_is_withdrawn CHECK (NOT vanished OR withdrawn)
);

COMMENT ON TABLE posts IS 'Projection: one row per imported comment, without its text, which is in the event. Rebuildable from events.';
COMMENT ON COLUMN posts.author_id IS 'See authors; NULL once the comment was erased or withdrawn.';
COMMENT ON COLUMN posts.edited_at IS 'When the author last edited text or chapter, according to the partner; NULL if never.';
COMMENT ON COLUMN posts.text_log_index IS 'Place in the log of the edit with the text of the comment; NULL: the text is that of the import.';
COMMENT ON COLUMN posts.withdrawn IS 'Whether the partner withdrew the comment.';
COMMENT ON COLUMN posts.vanished IS 'Whether readers do not see that there was a comment: it is top-level, withdrawn and has no replies.';
COMMENT ON COLUMN posts.content_bytes IS 'Length of the text in UTF-8, by which pages are cut; NULL once the comment was erased or withdrawn.';
COMMENT ON COLUMN posts.log_index IS 'Place of the comment in the log: the order of comments that were written at the same instant.';
COMMENT ON COLUMN posts.recorded_at IS 'When the comment was received.';
COMMENT ON COLUMN posts.hidden IS 'Whether staff hid this comment individually. For visibility to readers see post_is_hidden.';
COMMENT ON COLUMN posts.parent_lost IS 'Whether the comment named a parent that was not in the thread, and so is top-level.';
COMMENT ON COLUMN posts.moderated_at IS 'When staff last hid or restored this comment individually; NULL if never.';
COMMENT ON COLUMN posts.changed_at IS 'When the last event was recorded that changed what analysts see of the comment; of an erased one, only decisions about itself count.';
COMMENT ON COLUMN posts.root_post_id IS 'Top-level comment of this direct or indirect reply; NULL when the comment is top-level itself.';
COMMENT ON COLUMN posts.depth IS 'Number of replies up to the top-level comment: 0 for a top-level comment, 1 for a direct reply.';

-- For replies to withdrawn comments. Few comments are withdrawn and have no replies.
CREATE INDEX posts_vanished ON posts (post_id) WHERE vanished;
-- For lists of staff. Few comments are in these states, so an import pays for none of the indexes.
CREATE INDEX posts_hidden ON posts (log_index) WHERE hidden;
CREATE INDEX posts_edited ON posts (log_index) WHERE edited_at IS NOT NULL;
CREATE INDEX posts_withdrawn ON posts (log_index) WHERE withdrawn;

CREATE TABLE reported_posts (
    post_id           uuid        NOT NULL,
    author_id         uuid        NOT NULL,
    log_index         bigint      NOT NULL,
    spam              bigint      NOT NULL,
    abuse             bigint      NOT NULL,
    spoiler           bigint      NOT NULL,
    illegal           bigint      NOT NULL,
    copyright         bigint      NOT NULL,
    other             bigint      NOT NULL,
    first_reported_at timestamptz NOT NULL,
    last_reported_at  timestamptz NOT NULL,
    CONSTRAINT reported_posts_pkey PRIMARY KEY (post_id)
);
CREATE INDEX reported_posts_waiting ON reported_posts (first_reported_at, post_id);
CREATE INDEX reported_posts_newest ON reported_posts (log_index);
CREATE INDEX reported_posts_by_author ON reported_posts (author_id);

COMMENT ON TABLE reported_posts IS 'Projection posts: comments with reports since the last decision of staff, and the number of readers by reason. Rebuildable from events.';
COMMENT ON COLUMN reported_posts.author_id IS 'As in posts, like log_index.';
COMMENT ON COLUMN reported_posts.first_reported_at IS 'When the first of these reports was received.';

-- A discussion is paged by its top-level comments in the order of writing, and so are the replies to each. Comments written at the same
-- instant follow their place in the log, where a parent precedes its replies. No chapter is -1, because an index cannot provide an order
-- that starts with chapter_number IS NULL. The first index has the chapter
-- so that a page up to an early chapter skips comments on later ones without reading them; there, no chapter is 0, which is up to any.
CREATE INDEX posts_top_level ON posts (thread_id, written_at, log_index, (coalesce(chapter_number, 0)))
    WHERE root_post_id IS NULL AND NOT vanished;
CREATE INDEX posts_top_level_by_chapter ON posts (thread_id, (coalesce(chapter_number, -1)), written_at, log_index)
    WHERE root_post_id IS NULL AND NOT vanished;
CREATE INDEX posts_replies ON posts (root_post_id, written_at, log_index) WHERE root_post_id IS NOT NULL;
-- The comments on a novel for staff, the latest first.
CREATE INDEX posts_by_novel ON posts (novel_id, log_index);
-- The comments of an author, the latest first. written_at is there for the one that gives the author's name.
CREATE INDEX posts_by_author ON posts (author_id, log_index, written_at) WHERE author_id IS NOT NULL;
-- The comments of an author that staff decided about.
CREATE INDEX posts_moderated ON posts (author_id, moderated_at) WHERE moderated_at IS NOT NULL;

-- For copies of what has changed. Batches of comments are added in the order of changed_at, so a few ranges of pages hold the latest ones: at a
-- million rows the index has 40 kB. Other tables with changed_at are small, and before PostgreSQL 16 an index would keep their rows from
-- being updated in place.
CREATE INDEX posts_changed ON posts USING brin (changed_at) WITH (pages_per_range = 32, autosummarize = on);

-- The only definition, for all readers. A single SQL expression, so that the planner inlines it.
CREATE FUNCTION post_is_hidden(
    hidden             boolean,
    moderated_at       timestamptz,
    recorded_at        timestamptz,
    posts_hidden_until timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hidden OR coalesce(posts_hidden_until >= recorded_at AND (moderated_at IS NULL OR moderated_at <= posts_hidden_until), false)
$$;
-- The views of analysts call it.
GRANT EXECUTE ON FUNCTION post_is_hidden TO PUBLIC;
COMMENT ON FUNCTION post_is_hidden IS 'Whether readers must not see a comment: hidden, moderated_at and recorded_at from posts, posts_hidden_until from author_decisions (NULL without a row). The latest decision holds.';

-- The words of comments, by which staff find them; empty unless the service runs with --search-comments.
--
-- A word is a hash of 32 bits, after the number of its segment: log_index >> 16. A GIN index cannot stop after the first of many matches, nor
-- return them in an order. With a key for each word in each segment, a search goes from segment to segment, the latest first, and stops when
-- it has enough: however frequent a word is, it has at most 65,536 matches in one. New comments change only the keys of the latest segment,
-- so the pages that they need stay in memory. The list of pending entries is short, because each probe reads all of it, but not empty: to sort
-- in each comment by itself would cost three times as much.
--
-- The first word is the author, by whom an erasure finds the row. It is negative, and so is not one of a text.
CREATE TABLE post_words (
    log_index bigint   NOT NULL,
    post_id   uuid     NOT NULL,
    words     bigint[] NOT NULL,
    CONSTRAINT post_words_pkey PRIMARY KEY (log_index)
);
CREATE INDEX post_words_words ON post_words USING gin (words) WITH (gin_pending_list_limit = 256);

COMMENT ON TABLE post_words IS 'Projection words: hashes of the words in the latest text of each comment that was not erased or withdrawn. Rebuildable from events.';
COMMENT ON COLUMN post_words.log_index IS 'Place of the comment in the log.';

-- Simple enough to be inlined, because the projection calls it for each comment.
CREATE FUNCTION author_word(p_author_id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || left(translate(p_author_id::text, '-', ''), 16))::bit(64)::bigint | (1::bigint << 63)
$$;
COMMENT ON FUNCTION author_word IS 'The first of the words of each comment of an author: 59 random bits of the identifier.';

-- For these two, see novels_with_facets below. A statement that calls one also names post_words.
CREATE FUNCTION words_of_author(p_author_id uuid) RETURNS bigint[]
    LANGUAGE sql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = on SET jit = off AS $$
    SELECT coalesce(array_agg(w.log_index), '{}') FROM post_words AS w WHERE w.words @> ARRAY[author_word(p_author_id)]
$$;
COMMENT ON FUNCTION words_of_author IS 'The comments of an author in post_words, by log_index.';

-- +goose StatementBegin
CREATE FUNCTION posts_with_words(p_hashes bigint[], p_from bigint, p_to bigint, p_most integer)
    RETURNS TABLE (found_post uuid, found_place bigint)
    LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = on SET jit = off
    SET max_parallel_workers_per_gather = 0 SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    found_rows integer;
BEGIN
    FOR segment IN REVERSE ((p_to - 1) >> 16)::integer .. (p_from >> 16)::integer LOOP
        RETURN QUERY
            SELECT w.post_id, w.log_index FROM post_words AS w
            WHERE w.words @> ARRAY(SELECT segment::bigint << 32 | h FROM unnest(p_hashes) AS h)
              AND w.log_index + 0 >= p_from AND w.log_index + 0 < p_to -- not by the primary key
            ORDER BY w.log_index DESC LIMIT p_most;
        GET DIAGNOSTICS found_rows = ROW_COUNT;
        p_most := p_most - found_rows;
        EXIT WHEN p_most = 0;
    END LOOP;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION posts_with_words IS 'The latest p_most comments with all of these words, with their place in the log: from p_from, and before p_to.';

-- Most batches update authors in place: free room on the page avoids index updates.
CREATE TABLE authors (
    author_id              uuid        NOT NULL,
    integration_id         uuid        NOT NULL,
    external_uuid          text        NOT NULL,
    display_name           text        NOT NULL,
    display_name_at        timestamptz NOT NULL,
    display_name_log_index bigint      NOT NULL,
    first_seen_at          timestamptz NOT NULL,
    changed_at             timestamptz NOT NULL,
    CONSTRAINT authors_pkey PRIMARY KEY (author_id)
) WITH (fillfactor = 70);
-- For the list of an integration's authors.
CREATE INDEX authors_external_idx ON authors (integration_id, external_uuid COLLATE "C");

COMMENT ON TABLE authors IS 'Projection: one row per partner''s user who has commented. Rebuildable from events.';
COMMENT ON COLUMN authors.external_uuid IS 'The partner''s identifier of the user.';
COMMENT ON COLUMN authors.display_name IS 'User name on the comment with the latest written_at; of several, on the latest in the log.';
COMMENT ON COLUMN authors.display_name_at IS 'When that comment was written.';
COMMENT ON COLUMN authors.display_name_log_index IS 'Place of that comment in the log.';
COMMENT ON COLUMN authors.first_seen_at IS 'When the first comment of the author was received, however old it was then.';
COMMENT ON COLUMN authors.changed_at IS 'When the last event was recorded that changed what analysts see of the author: a name, a link or a block.';

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
    search         text        NOT NULL COLLATE "C",
    folded_language text       NOT NULL COLLATE "C",
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
COMMENT ON COLUMN novels.search IS 'Title and author as a search compares them, each on a line: without accents, case and punctuation.';
COMMENT ON COLUMN novels.folded_language IS 'The language as a filter compares it.';
COMMENT ON COLUMN novels.owner_id IS 'Integration that owns the novel now; NULL when the host platform does.';
COMMENT ON COLUMN novels.created_by IS 'Integration that created the novel; NULL when the host platform did.';
COMMENT ON COLUMN novels.updates IS 'Number of updates, including those without changes.';
COMMENT ON COLUMN novels.moderations IS 'Number of approvals, rejections and publications by staff after its creation.';
COMMENT ON COLUMN novels.stream_version IS 'Version of the novel''s stream that this row reflects.';

-- The order of the catalogue by title. Accents and punctuation do not count.
CREATE INDEX novels_by_title ON novels (split_part(search, E'\n', 1) COLLATE "C", novel_id);

-- For lists of novels with a filter: without the index, a search would go through all novels. Pairs of characters find parts of words in
-- every script, whatever the locale of the database and without an extension. Without fastupdate, because the list of pending entries
-- would slow down readers.
CREATE FUNCTION novel_facets(p_search text, p_genres text[], p_folded_language text, p_owner_id uuid) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT DISTINCT substr(p_search, i, 2) FROM generate_series(1, length(p_search) - 1) AS i)
        || ARRAY(SELECT 'genre:' || g FROM unnest(p_genres) AS g)
        || ARRAY['language:' || p_folded_language, 'owner:' || coalesce(p_owner_id::text, '')]
$$;
COMMENT ON FUNCTION novel_facets IS 'What a novel can be found by: pairs of adjacent characters of its title and author, genres, language and owner.';
CREATE INDEX novels_facets ON novels USING gin (novel_facets(search, genres, folded_language, owner_id)) WITH (fastupdate = off);

-- Only a bitmap scan reads such an index, and the sessions of readers have it switched off. A statement that calls this function must
-- also name novels. Then the table is locked before the statement gets its snapshot. Otherwise a rebuild could exchange the table in
-- between, and rows that the rebuild has just written would be missing. In the body, search_path selects the generation.
CREATE FUNCTION novels_with_facets(p_facets text[], p_words text[], p_most integer) RETURNS uuid[]
    LANGUAGE sql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = on SET jit = off AS $$
    SELECT CASE WHEN count(*) <= p_most THEN coalesce(array_agg(f.novel_id), '{}') END FROM (
        SELECT n.novel_id FROM novels n
        WHERE novel_facets(n.search, n.genres, n.folded_language, n.owner_id) @> p_facets
          AND NOT EXISTS (SELECT FROM unnest(p_words) AS w WHERE strpos(n.search, w) = 0)
        LIMIT p_most + 1
    ) AS f
$$;
COMMENT ON FUNCTION novels_with_facets IS 'The novels with all facets of novel_facets and all words in their title or author; NULL if there are more than p_most.';

-- The counters below are one projection, activity: the same events change all of them, so the events are read once, and the counters
-- always agree. A row is updated in place while its page has room (HOT), because no index has a counter.
CREATE TABLE daily_facts (
    day            date    NOT NULL,
    integration_id uuid    NOT NULL,
    novel_id       uuid    NOT NULL,
    posts          integer NOT NULL,
    novels_created integer NOT NULL,
    novels_updated integer NOT NULL,
    CONSTRAINT daily_facts_pkey PRIMARY KEY (day, integration_id, novel_id)
) WITH (fillfactor = 70);
-- The days of a novel, for the most discussed novels of the week.
CREATE INDEX daily_facts_novel ON daily_facts (novel_id, day);

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

-- Sort keys of the lists on public pages. posted_at is in whole minutes, so that a busy discussion rarely moves in the index.
CREATE TABLE novel_activity (
    novel_id   uuid        NOT NULL,
    created_at timestamptz NOT NULL,
    posted_at  timestamptz NOT NULL,
    CONSTRAINT novel_activity_pkey PRIMARY KEY (novel_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE novel_activity IS 'Projection activity: when a novel was created and last commented on. Rebuildable from events.';
COMMENT ON COLUMN novel_activity.created_at IS 'When the novel was created; -infinity until that event is counted.';
COMMENT ON COLUMN novel_activity.posted_at IS 'Minute in which its latest comment was written; -infinity without comments.';
CREATE INDEX novel_activity_posted ON novel_activity (posted_at, created_at, novel_id);
CREATE INDEX novel_activity_created ON novel_activity (created_at, novel_id);

CREATE TABLE chapter_activity (
    thread_id      uuid    NOT NULL,
    chapter_number numeric NOT NULL,
    posts          bigint  NOT NULL,
    replies        bigint  NOT NULL,
    CONSTRAINT chapter_activity_pkey PRIMARY KEY (thread_id, chapter_number)
) WITH (fillfactor = 50);
COMMENT ON TABLE chapter_activity IS 'Projection activity: counts of imports per chapter. Rebuildable from events.';
COMMENT ON COLUMN chapter_activity.chapter_number IS '-1 for the novel as a whole.';

-- +goose Down
DROP TABLE chapter_activity, novel_activity, integration_activity, thread_activity, daily_facts, novels, authors;
DROP FUNCTION post_is_hidden, novels_with_facets, novel_facets, posts_with_words, words_of_author, author_word;
DROP TABLE post_words, reported_posts, posts, projection_rebuilds, projections;
