package pgserver

// InstallCommandFor is exported for its test.
var InstallCommandFor = installCommandFor
