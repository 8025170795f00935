package rebase

// CheckSize refuses a log that is too large for a test.
var CheckSize = checkSize
