-- Pieces of tiles, ordered by tile and then by place. $1: levels, $2: number of the first hash of each tile within its level, $3: widths.
SELECT want.i, piece.first_node, piece.hashes
FROM unnest($1::smallint[], $2::bigint[], $3::integer[]) WITH ORDINALITY AS want (level, first_node, width, i)
CROSS JOIN LATERAL (
    SELECT t.first_node, t.hashes
    FROM ledger_tiles AS t
    WHERE t.level = want.level AND t.first_node >= want.first_node AND t.first_node < want.first_node + want.width
    ORDER BY t.first_node
) AS piece
ORDER BY want.i, piece.first_node
