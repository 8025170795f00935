-- How fresh the answers are
SELECT projection, state, lag_events, lag_seconds, as_of FROM analytics.freshness ORDER BY projection;
