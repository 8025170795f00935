-- Titles without a novel: barred (rejected, without an owner) and free again. The new state only widens the allowed values of the
-- column. Near titles are also searched by their ends, to find those with a typing error in the first letters.

-- +goose Up
ALTER TABLE title_lookup DROP CONSTRAINT title_lookup_state_check;
ALTER TABLE title_lookup ADD CONSTRAINT title_lookup_state_check
    CHECK (state IN ('pending', 'approved', 'published', 'rejected', 'free'));
ALTER TABLE title_lookup ADD CONSTRAINT title_lookup_free_is_nobodys CHECK (state <> 'free' OR owner_id IS NULL);

COMMENT ON TABLE title_lookup IS 'Inline projection: folded title to novel. Rebuildable from events. A row without a novel: state free, or rejected without an owner.';
COMMENT ON COLUMN title_lookup.state IS 'pending, approved, published or rejected; free: staff approved a barred title, so there is no novel.';
COMMENT ON COLUMN title_lookup.owner_id IS 'Integration that owns the novel; NULL for the host platform (published) and without a novel (free, or barred).';

-- Only the end, so that the longest titles fit.
CREATE INDEX title_lookup_reversed ON title_lookup (reverse(right(folded_title, 64)) COLLATE "C");
COMMENT ON INDEX title_lookup_reversed IS 'Ends of titles in reverse, for near titles with another beginning.';

-- The order of the staff's list.
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
