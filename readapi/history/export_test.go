package history

// SetScanRows makes pages end after fewer rows.
func (r *Reader) SetScanRows(n int) { r.scanRows = n }
