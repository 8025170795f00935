package rebuild_test

const childVariable = "NOVELGATE_TEST_REBUILD"

func child() {}
