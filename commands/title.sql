-- The novel of a title. $1: folded title.
SELECT novel_id, slug, state, owner_id, stream_version FROM title_lookup WHERE folded_title = $1 COLLATE "C"
