-- The order of titles by their first letter or digit.
-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION title_order(p_folded_title text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ltrim(p_folded_title, ' !"#$%&''()*+,-./:;<=>?@[\]^_`{|}~¡¿«»‹›‘’‚“”„…–—·•′″「」『』《》〈〉【】（）')
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION title_order IS 'A folded title without leading punctuation: the order of the catalogue.';
CREATE INDEX title_lookup_order ON title_lookup ((title_order(folded_title)), folded_title);

-- +goose Down
DROP INDEX title_lookup_order;
DROP FUNCTION title_order;
