-- Sort keys of the lists on public pages, and the number of comments of each chapter.
-- +goose Up
-- posted_at is in whole minutes, so that a busy discussion rarely moves in the index.
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

-- The days of a novel, for the most discussed novels of the week.
CREATE INDEX daily_facts_novel ON daily_facts (novel_id, day);

-- +goose Down
DROP INDEX daily_facts_novel;
DROP TABLE chapter_activity, novel_activity;
