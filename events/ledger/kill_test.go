package ledger_test

const childDatabase = "NOVELGATE_LEDGER_TEST_DATABASE"

func sealUntilKilled(string) {}
