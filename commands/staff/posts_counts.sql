-- The numbers of an author's comments, of the hidden ones, and of reports that wait, a row each. $1: author; $2: where counting ends.
-- Comments without a decision are hidden only with all of the author up to a time, so without that time only the others are read.
SELECT unnest(ARRAY[
    (SELECT count(*) FROM (SELECT FROM posts p WHERE p.author_id = k.author_id LIMIT $2) AS c),
    (SELECT count(*) FROM (
        SELECT FROM posts p WHERE p.author_id = k.author_id AND p.moderated_at IS NOT NULL
          AND post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) LIMIT $2) AS c)
    + (SELECT count(*) FROM (
        SELECT FROM posts p WHERE d.posts_hidden_until IS NOT NULL AND p.author_id = k.author_id AND p.moderated_at IS NULL
          AND p.recorded_at <= d.posts_hidden_until LIMIT $2) AS c),
    (SELECT coalesce(sum(r.spam + r.abuse + r.spoiler + r.illegal + r.copyright + r.other), 0) FROM reported_posts r
     WHERE r.author_id = k.author_id)
])::bigint
FROM (SELECT $1::uuid AS author_id) AS k
LEFT JOIN author_decisions d ON d.author_id = k.author_id
