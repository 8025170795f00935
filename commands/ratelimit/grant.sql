-- Stores granted permits, and returns their second. $1: integrations, $2: operations, $3: numbers, $4: whether this is the first grant of
-- the second; then what no longer counts is deleted.
WITH k AS (
    SELECT k.*, floor(extract(epoch FROM clock_timestamp()))::bigint AS second
    FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::boolean[]) AS k (integration_id, operation, permits, is_first)
), gone AS (
    DELETE FROM rate_limits AS r USING k
    WHERE k.is_first AND r.integration_id = k.integration_id AND r.operation = k.operation
        AND r.second NOT BETWEEN k.second - 61 AND k.second + 60
)
INSERT INTO rate_limits (integration_id, operation, second, permits)
SELECT k.integration_id, k.operation, k.second, k.permits FROM k
ON CONFLICT (integration_id, operation, second) DO UPDATE SET permits = rate_limits.permits + excluded.permits
RETURNING second
