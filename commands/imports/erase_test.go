package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"novelgate/commands/imports"
	"novelgate/internal/testdb"
)

func noRecord() error { return nil }

// TestErasureOfLinesThatWillFail: a line whose author cannot be read is erased if it contains the identifier. Novels,
// and comments of others that quote it, stay.
func TestErasureOfLinesThatWillFail(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	line := comment("k", "", "c")
	f.spool(t, integration,
		strings.Replace(line, `"uuid":"u"`, `"uuid":"gone","uuid":"u"`, 1)+
			strings.Replace(line, `"uuid":"u"`, `"UUID":"gone"`, 1)+
			strings.Replace(line, `"uuid":"u"`, `"uuid":"gone`, 1),
		`{"operation":"novels","idempotencyKey":"n","body":{"novel":"N","synopsis":"gone"}}`+"\n"+
			comment("gone", "", "gone")+"\n")
	for _, want := range []int{3, 0} {
		erased, err := imports.EraseLines(t.Context(), f.pool, integration, "gone", noRecord)
		if erased != want || err != nil {
			t.Errorf("%d lines erased, %v, want %d", erased, err, want)
		}
	}
	f.wantMeasured(t)
}

// TestErasureOfPurgedLines ends, although the lines are deleted when it has found them.
func TestErasureOfPurgedLines(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	f.spool(t, integration, comment("k", "", "c"))
	purging := testdb.Begin(t, f.pool)
	testdb.Exec(t, purging, `DELETE FROM import_chunks`)
	ended := make(chan error, 1)
	go func() {
		erased, err := imports.EraseLines(t.Context(), f.pool, integration, "u", noRecord)
		if err == nil && erased != 0 {
			err = fmt.Errorf("%d lines erased", erased)
		}
		ended <- err
	}()
	testdb.Eventually(t, "the erasure waits", func() bool {
		return testdb.Value[int](t, f.pool, `SELECT count(*)::int FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) == 1
	})
	if err := purging.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestErasureThatLosesItsLease fails: another worker may execute the lines.
func TestErasureThatLosesItsLease(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	f.spool(t, integration, comment("k", "", "c"))
	testdb.Exec(t, f.pool, `CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	testdb.Exec(t, f.pool, `CREATE TRIGGER lose BEFORE UPDATE OF body ON import_chunks FOR EACH ROW EXECUTE FUNCTION lose()`)
	if erased, err := imports.EraseLines(t.Context(), f.pool, integration, "u", noRecord); err == nil {
		t.Errorf("%d lines erased without an error", erased)
	}
}
