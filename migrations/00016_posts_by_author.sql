-- The comments of an author are looked for seldom, and added all the time. A GIN index takes new rows in the order in which they come and
-- sorts them in by the thousand, at less than half of what a B-tree costs that finds the place of each among many authors at once.

-- +goose Up
-- The old one goes last: from then on nobody reads comments until this is committed.
CREATE INDEX posts_by_author_new ON posts USING gin ((ARRAY[author_id])) WHERE author_id IS NOT NULL;
DROP INDEX posts_by_author;
ALTER INDEX posts_by_author_new RENAME TO posts_by_author;

-- Only a bitmap scan reads such an index, and readers have those switched off; while the table is small, or has never been analysed, a plan
-- that is kept would read all of it. In the body, search_path decides which generation is read.
--
-- A statement that calls this names posts itself, too. That locks the table before the statement gets its snapshot: otherwise a rebuild could
-- exchange it in between, and rows that it has just written would be missing.
-- +goose StatementBegin
CREATE FUNCTION posts_of_authors(p_authors uuid[]) RETURNS uuid[]
    LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = on SET jit = off AS $$
    SELECT coalesce(array_agg(p.post_id), '{}') FROM posts AS p
    WHERE p.author_id IS NOT NULL AND ARRAY[p.author_id] && p_authors
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION posts_of_authors IS 'The comments that posts shows as those of some authors, by the index posts_by_author. For statements that name posts, too.';

-- +goose Down
DROP FUNCTION posts_of_authors;
CREATE INDEX posts_by_author_old ON posts (author_id, written_at) WHERE author_id IS NOT NULL;
DROP INDEX posts_by_author;
ALTER INDEX posts_by_author_old RENAME TO posts_by_author;
