-- Begins the next round of imports whose chunks have all been visited, and ends imports without remaining lines. While an import is
-- open, a round without progress is repeated after a growing pause. Once it is complete, a final round follows.
UPDATE imports AS i SET
    state = CASE WHEN n.unsettled THEN i.state ELSE 'completed' END,
    ended_at = CASE WHEN n.unsettled THEN i.ended_at ELSE now() END,
    -- Measured again, because a replica of the version before does not count what it stores.
    spooled = CASE WHEN n.unsettled THEN i.spooled
        ELSE (SELECT coalesce(sum(octet_length(c.body)), 0) FROM import_chunks AS c WHERE c.import_id = i.import_id) END,
    round = i.round + 1, advanced_at = now(), progress = 0,
    stalls = CASE WHEN i.progress > 0 THEN 0 ELSE i.stalls + 1 END,
    final = i.progress = 0 AND i.state = 'processing'
FROM imports AS j, LATERAL (
    SELECT EXISTS (SELECT FROM import_chunks AS c WHERE c.import_id = j.import_id AND c.unsettled > 0) AS unsettled,
           EXISTS (SELECT FROM import_chunks AS c WHERE c.import_id = j.import_id AND c.unsettled > 0
               AND c.turn < (j.round + 1) * 1099511627776) AS unvisited
) AS n
WHERE i.import_id = j.import_id AND j.state IN ('open', 'processing') AND i.state = j.state AND i.round = j.round
  AND i.progress = j.progress AND NOT n.unvisited
  AND (n.unsettled AND (i.progress > 0 OR i.state = 'processing' AND NOT i.final
           OR i.state = 'open' AND i.advanced_at < now() - make_interval(secs => power(2, least(i.stalls, 6))))
       OR NOT n.unsettled AND i.state = 'processing')
