-- Stores a group of refusals. It may repeat a group whose outcome was unknown.
INSERT INTO refusals (integration_id, refusal_id, refused_at, request_id, operation, idempotency_key, code, field, detail)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
ON CONFLICT (integration_id, refusal_id) DO NOTHING
