-- The inline projections titles and threads.

-- +goose Up
CREATE TABLE title_lookup (
    folded_title   text COLLATE "C" NOT NULL CHECK (folded_title <> ''),
    novel_id       uuid NOT NULL,
    slug           text COLLATE "C" NOT NULL CHECK (slug <> ''),
    title          text NOT NULL,
    state          text NOT NULL CHECK (state IN ('pending', 'approved', 'published', 'rejected')),
    owner_id       uuid,
    stream_version integer NOT NULL CHECK (stream_version > 0),
    details        jsonb NOT NULL,
    CONSTRAINT title_lookup_pkey PRIMARY KEY (folded_title),
    CONSTRAINT title_lookup_novel_key UNIQUE (novel_id),
    CONSTRAINT title_lookup_slug_key UNIQUE (slug),
    CONSTRAINT title_lookup_published_is_host CHECK (state <> 'published' OR owner_id IS NULL)
) WITH (fillfactor = 80);

COMMENT ON TABLE title_lookup IS 'Inline projection: folded title to novel. Rebuildable from events.';
COMMENT ON COLUMN title_lookup.owner_id IS 'Integration that owns the novel; NULL when the host platform does.';
COMMENT ON COLUMN title_lookup.stream_version IS 'Version of the novel''s stream that this row reflects.';
COMMENT ON COLUMN title_lookup.details IS 'Current author, synopsis, coverUrl, genres, language, readingStatus, with which an update is compared.';

CREATE TABLE threads (
    novel_id  uuid NOT NULL,
    thread_id uuid NOT NULL,
    CONSTRAINT threads_pkey PRIMARY KEY (novel_id),
    CONSTRAINT threads_thread_key UNIQUE (thread_id)
);

COMMENT ON TABLE threads IS 'Inline projection: the one discussion thread of a novel. Rebuildable from events.';

-- +goose Down
DROP TABLE threads;
DROP TABLE title_lookup;
