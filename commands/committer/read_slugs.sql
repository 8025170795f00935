-- Which slugs are taken. $1: candidates.
SELECT slug FROM title_lookup WHERE slug = ANY ($1::text[])
