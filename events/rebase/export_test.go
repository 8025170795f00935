package rebase

// CheckSize is what refuses a log that no test can fill.
var CheckSize = checkSize
