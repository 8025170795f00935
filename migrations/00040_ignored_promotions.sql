-- A service that was replaced by mistake goes on. See docs/promotion.md.

-- +goose Up
CREATE TABLE ignored_promotions (
    promotion_id  uuid        NOT NULL PRIMARY KEY,
    successor_url text        NOT NULL,
    ignored_at    timestamptz NOT NULL
);

COMMENT ON TABLE ignored_promotions IS 'Promotions that do not replace this database, because staff have discarded the promoted service.';
COMMENT ON COLUMN ignored_promotions.promotion_id IS 'Id of the promotion.';
COMMENT ON COLUMN ignored_promotions.successor_url IS 'Public URL of the discarded service; empty if unknown.';
COMMENT ON COLUMN ignored_promotions.ignored_at IS 'When the fence was lifted.';

-- +goose Down
DROP TABLE ignored_promotions;
