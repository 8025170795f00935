package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"novelgate/client"
	"novelgate/internal/testdb"
)

const webhooksPath = "/api/integrations/webhooks"

// NewWebhook creates a webhook of a partner.
func (p *Partner) NewWebhook(t testing.TB, url string) (made client.Webhook) {
	t.Helper()
	p.Post(t, webhooksPath, "", Fields{"url": url}).WantJSON(t, http.StatusCreated, &made)
	return made
}

// TestWebhook: the service sends the changes of the feed, signed, to an address that its operator allows. Staff see the
// webhook and switch it off. Order, retries and private addresses are tested in commands/webhooks.
func TestWebhook(t *testing.T) {
	t.Parallel()
	type message struct {
		header http.Header
		body   []byte
	}
	took := make(chan message, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			took <- message{r.Header, body}
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(endpoint.Close)
	s := Start(t, testdb.New(t), "--webhook-allow-cidr", "127.0.0.1/32")
	ada, p := s.NewStaff(t), s.NewPartner(t)
	p.Post(t, webhooksPath, "", Fields{"url": "http://127.0.0.2/"}).WantInvalid(t, "url")
	hook := p.NewWebhook(t, endpoint.URL)
	novel := p.Upsert(t, Key(), Fields{"novel": Unique("Hooked")}).WantNovel(t, 201)
	ada.Reject(t, novel.NovelID)
	testdb.Eventually(t, "the change is sent", func() bool { return len(took) == 1 })

	sent := <-took
	verifier := testdb.Must(standardwebhooks.NewWebhook(hook.Secret))(t)
	if err := verifier.Verify(sent.body, sent.header); err != nil {
		t.Errorf("not verified: %v\n%s", err, sent.body)
	}
	var got client.Change
	if err := json.Unmarshal(sent.body, &got); err != nil {
		t.Fatal(err)
	}
	if told := p.feed(t); len(told) != 1 || got.ID != told[0].ID || got.Cursor != told[0].Cursor ||
		got.Type != "novel.rejected" || string(got.Data) != string(told[0].Data) {
		t.Errorf("sent %+v, in the feed %+v", got, told)
	}
	list := s.MustCLI(t, "webhook", "list", p.IntegrationID)
	if !strings.Contains(list.Stdout, endpoint.URL) {
		t.Errorf("%s", list.Stdout)
	}
	s.MustCLI(t, "webhook", "disable", hook.WebhookID, "--reason", "abuse")
	var now client.Webhook
	p.Get(t, webhooksPath+"/"+hook.WebhookID).WantJSON(t, http.StatusOK, &now)
	if now.Enabled || *now.DisabledReason != "abuse" {
		t.Errorf("%+v", now)
	}
}
