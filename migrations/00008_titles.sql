-- Titles that nobody has imported: barred (rejected, without an owner) and free again. The new state only widens what
-- the column may hold. Near titles are also looked for from their end, so that a slip in the first letter is found.

-- +goose Up
ALTER TABLE title_lookup DROP CONSTRAINT title_lookup_state_check;
ALTER TABLE title_lookup ADD CONSTRAINT title_lookup_state_check
    CHECK (state IN ('pending', 'approved', 'published', 'rejected', 'free'));
ALTER TABLE title_lookup ADD CONSTRAINT title_lookup_free_is_nobodys CHECK (state <> 'free' OR owner_id IS NULL);

COMMENT ON TABLE title_lookup IS 'Inline projection: folded title to novel. Rebuildable from events. A row without a novel: state free, or rejected without an owner.';
COMMENT ON COLUMN title_lookup.state IS 'pending, approved, published or rejected; free: staff lifted the bar on a title that nobody had imported, there is no novel.';
COMMENT ON COLUMN title_lookup.owner_id IS 'Integration that owns the novel; NULL when the host platform does (published) or nobody (free; rejected before anybody imported it).';

-- The end alone, so that the longest titles fit, too.
CREATE INDEX title_lookup_reversed ON title_lookup (reverse(right(folded_title, 64)) COLLATE "C");
COMMENT ON INDEX title_lookup_reversed IS 'Titles by their end, read backwards, for near titles with another beginning.';

-- The order in which staff list them, page by page.
CREATE INDEX integrations_registered ON integrations (registered_at, integration_id);

-- +goose Down
DROP INDEX integrations_registered;
DROP INDEX title_lookup_reversed;
ALTER TABLE title_lookup DROP CONSTRAINT title_lookup_free_is_nobodys;
ALTER TABLE title_lookup DROP CONSTRAINT title_lookup_state_check;
ALTER TABLE title_lookup ADD CONSTRAINT title_lookup_state_check
    CHECK (state IN ('pending', 'approved', 'published', 'rejected'));
COMMENT ON COLUMN title_lookup.state IS NULL;
COMMENT ON COLUMN title_lookup.owner_id IS 'Integration that owns the novel; NULL when the host platform does.';
COMMENT ON TABLE title_lookup IS 'Inline projection: folded title to novel. Rebuildable from events.';
