-- $1: integration; $2: operation; $3: limit; $4: permits wanted; $5: lease share (1/$5 of the remaining permits; 0: no lease); $6: lease
-- time; $7: times of the charges of returned permits; $8: number of returned permits of each charge.
SELECT granted, leased, used, granted_at, leased_until, retry_after, reset_after
FROM rate_limit_take($1, $2, $3, $4, $5, $6, $7, $8)
