-- The numbers of an author's comments, of the hidden ones, and of reports that wait, a row each. $1: author.
SELECT unnest(ARRAY[
    count(*), count(*) FILTER (WHERE post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until)),
    coalesce(sum(r.spam + r.abuse + r.spoiler + r.illegal + r.copyright + r.other), 0)
])::bigint
FROM unnest(posts_of_authors(ARRAY[$1::uuid])) AS a(id)
CROSS JOIN LATERAL (SELECT b.* FROM posts b WHERE b.post_id = a.id LIMIT 1) AS p
LEFT JOIN author_decisions d ON d.author_id = p.author_id
LEFT JOIN reported_posts r ON r.post_id = p.post_id
