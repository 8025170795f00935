-- Where the events of each transaction go: to first_position + position. Dropped before the transaction ends, so that no
-- other session sees it; not a temporary table, for which the role may lack the right.
CREATE UNLOGGED TABLE log_rebase (transaction_id, first_position, events, has_gaps) AS
SELECT transaction_id, sum(count(*)) OVER (ORDER BY transaction_id)::bigint - count(*), count(*), min(position) <> 0 OR max(position) <> count(*) - 1
FROM events GROUP BY transaction_id;
ALTER TABLE log_rebase ADD PRIMARY KEY (transaction_id);
ANALYZE log_rebase
