-- How a novel stands. $1: novel.
SELECT slug, state FROM title_lookup WHERE novel_id = $1
