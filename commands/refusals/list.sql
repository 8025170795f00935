-- The refusals of the integration $1, newest first. $2: id before which they begin; zero: with the newest. $3 to $5: code, operation and
-- key; '' for all. $6: number of rows; 0 for all. $7: request id, also of its lines in bulk; '' for all.
SELECT refusal_id, refused_at, request_id, operation, idempotency_key, code, field, detail FROM refusals
WHERE integration_id = $1 AND ($2::uuid = '00000000-0000-0000-0000-000000000000' OR refusal_id < $2)
    AND ($3 = '' OR code = $3) AND ($4 = '' OR operation = $4) AND ($5 = '' OR idempotency_key = $5)
    AND ($7 = '' OR request_id = $7 OR split_part(request_id, '/', 1) = $7)
ORDER BY refusal_id DESC LIMIT nullif($6::bigint, 0)
