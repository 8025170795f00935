-- Blocked authors. $1: authors.
SELECT author_id FROM author_decisions WHERE blocked AND author_id = ANY ($1::uuid[])
