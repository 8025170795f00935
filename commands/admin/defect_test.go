package admin_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestDefectIsNoOutage: what repeating the request would not cure is a 500 and is logged.
func TestDefectIsNoOutage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const integrations = "/api/admin/integrations"
	id := d.post(t, integrations, `{"name":"Site"}`).str("integrationId")
	_, err := d.staff.Pool.Exec(t.Context(), `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		SELECT 0, 'integration', $1, max(stream_version) + 1, 'k', 'staff/tests', 'integration.renamed.v1', '[]', 'staff:tests', gen_random_uuid() FROM events WHERE stream_id = $1`, id)
	if err != nil {
		t.Fatal(err)
	}
	a := d.post(t, integrations+"/"+id+"/keys", `{}`)
	if a.status != http.StatusInternalServerError || a.code() != "internal" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if logged := d.log.String(); !strings.Contains(logged, "request failed") ||
		!strings.Contains(logged, "integration.renamed.v1") {
		t.Errorf("logged: %s", logged)
	}
}
