package imports_test

import (
	"strings"
	"testing"

	"novelgate/commands/imports"
	"novelgate/internal/testdb"
)

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
		if erased, err := imports.EraseLines(t.Context(), f.pool, integration, "gone"); erased != want || err != nil {
			t.Errorf("%d lines erased, %v, want %d", erased, err, want)
		}
	}
	f.wantMeasured(t)
}

// TestErasureThatLosesItsLease fails: another worker may execute the lines.
func TestErasureThatLosesItsLease(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	f.spool(t, integration, comment("k", "", "c"))
	testdb.Exec(t, f.pool, `CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	testdb.Exec(t, f.pool, `CREATE TRIGGER lose BEFORE UPDATE OF body ON import_chunks FOR EACH ROW EXECUTE FUNCTION lose()`)
	if erased, err := imports.EraseLines(t.Context(), f.pool, integration, "u"); err == nil {
		t.Errorf("%d lines erased without an error", erased)
	}
}
