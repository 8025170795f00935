-- A mirror erases only what its origin has erased: the trigger also guards personal parts. See docs/mirrors.md.

-- +goose Up
DROP TRIGGER events_only_mirrored ON events;
CREATE TRIGGER events_only_mirrored BEFORE INSERT OR UPDATE OF personal ON events
    FOR EACH STATEMENT WHEN (coalesce(current_setting('novelgate.mirror', true), '') <> 'on')
    EXECUTE FUNCTION events_are_mirrored();
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM mirror) THEN
        ALTER TABLE events ENABLE ALWAYS TRIGGER events_only_mirrored;
    ELSE
        ALTER TABLE events DISABLE TRIGGER events_only_mirrored;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER events_only_mirrored ON events;
CREATE TRIGGER events_only_mirrored BEFORE INSERT ON events
    FOR EACH STATEMENT WHEN (coalesce(current_setting('novelgate.mirror', true), '') <> 'on')
    EXECUTE FUNCTION events_are_mirrored();
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM mirror) THEN
        ALTER TABLE events ENABLE ALWAYS TRIGGER events_only_mirrored;
    ELSE
        ALTER TABLE events DISABLE TRIGGER events_only_mirrored;
    END IF;
END
$$;
-- +goose StatementEnd
