-- $1 integration, $2 operation, $3 limit, $4 permits wanted, $5 lease share (one in so many; 0: none), $6 lease time,
-- $7 charges of the permits that come back, $8 how many of each
SELECT granted, leased, used, granted_at, leased_until, retry_after, reset_after
FROM rate_limit_take($1, $2, $3, $4, $5, $6, $7, $8)
