-- Deletes all but the newest $2 refusals of each of the integrations $1.
DELETE FROM refusals AS r USING unnest($1::uuid[]) AS i (integration_id)
WHERE r.integration_id = i.integration_id AND r.refusal_id <= (
    SELECT n.refusal_id FROM refusals AS n WHERE n.integration_id = i.integration_id
    ORDER BY n.refusal_id DESC OFFSET $2 LIMIT 1)
