-- A novel in any state. $1: novel.
SELECT n.novel_id, n.slug, n.title, n.state FROM title_lookup n WHERE n.novel_id = $1
