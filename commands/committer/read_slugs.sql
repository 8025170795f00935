-- Taken slugs. $1: candidates.
SELECT slug FROM title_lookup WHERE slug = ANY ($1::text[])
