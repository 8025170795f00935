-- New positions of the events of each transaction: first_position + position. The table is dropped before the transaction ends, so that no
-- other session sees it. It is not a temporary table, because the role may not have the right to create one.
CREATE UNLOGGED TABLE log_rebase (transaction_id, first_position, events, has_gaps) AS
SELECT transaction_id, sum(count(*)) OVER (ORDER BY transaction_id)::bigint - count(*), count(*), min(position) <> 0 OR max(position) <> count(*) - 1
FROM events GROUP BY transaction_id;
ALTER TABLE log_rebase ADD PRIMARY KEY (transaction_id);
ANALYZE log_rebase
