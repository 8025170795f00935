-- Parts of the identifiers, by their first byte, that have public novels.
SELECT part FROM generate_series(0, 255) part
WHERE EXISTS (
  SELECT FROM title_lookup n
  WHERE n.novel_id >= (lpad(to_hex(part), 2, '0') || repeat('0', 30))::uuid
    AND n.novel_id <= (lpad(to_hex(part), 2, '0') || repeat('f', 30))::uuid
    AND n.state IN ('approved', 'published')
) ORDER BY part
