-- Comments that arrived late
-- Comments that a partner delivered after the day on which they were written. They change past days of daily_facts.
SELECT i.name AS partner, count(*) AS late, max(d.received - d.written) AS "days at most", min(d.written) AS "first day changed"
FROM analytics.posts AS p
JOIN analytics.integrations AS i USING (integration_id)
CROSS JOIN LATERAL (SELECT (p.received_at AT TIME ZONE 'UTC')::date AS received, (p.written_at AT TIME ZONE 'UTC')::date AS written) AS d
WHERE d.received > d.written
GROUP BY i.name
ORDER BY late DESC, i.name;
