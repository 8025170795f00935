-- Clears the posts of an erased author whose import precedes the erasure in the log: the table may already have later posts. $1: author;
-- $2: log index of the erasure. In a replay an erased post does not name its author, so changed_at keeps no trace of decisions about the
-- author. Table names are unqualified: search_path selects the live tables or those of a rebuild.
UPDATE posts p
SET author_id = NULL, content_bytes = NULL, changed_at = greatest(p.recorded_at, p.moderated_at, (
        SELECT max(e.recorded_at) FROM public.events e
        WHERE e.stream_id = p.post_id AND e.event_type = 'post.edited.v1' AND coalesce(e.data ->> 'newText', e.data ->> 'newChapter') IS NOT NULL))
WHERE p.author_id = $1::uuid AND p.log_index < $2::bigint
