-- Pieces of an entry bundle, in order. $1: log index of its first entry, $2: how many entries are wanted.
SELECT first_log_index, entries
FROM ledger_entries
WHERE first_log_index >= $1 AND first_log_index < $1 + $2::bigint
ORDER BY first_log_index
