package relay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// The permissions in docs/events.md are enough for the relay and for consumers, and keep personal data from those who
// have no permission for them.
func TestDocumentedPermissions(t *testing.T) {
	t.Parallel()
	document := testdb.Must(os.ReadFile("../../docs/events.md"))(t)
	_, config, _ := strings.Cut(string(document), "```\naccounts {")
	config, _, _ = strings.Cut("accounts {"+config, "```")
	name := relay.StreamName(ledgertest.Origin)
	config = strings.ReplaceAll(config, "EVENTS", name)
	file := filepath.Join(t.TempDir(), "nats.conf")
	testdb.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	access, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	cluster := relaytest.New(t, 1, func(o *server.Options) { o.Accounts, o.Users = access.Accounts, access.Users })
	b := &bundle{t: t, Ledger: ledgertest.New(t), nats: cluster, log: &testdb.Log{}}
	as := func(user string, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
		t.Helper()
		return cluster.Connect(append(options, nats.UserInfo(user, strings.ToUpper(user)+"_PASSWORD"))...)
	}
	_, b.js = as("relay")
	b.append(comments(4)...)
	conn, err := relay.Connect(t.Context(), relay.Connection{
		URL: strings.Replace(cluster.URL(), "nats://", "nats://relay:RELAY_PASSWORD@", 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	r := testdb.Must(relay.New(relay.Config{
		Database: b.Pool.Config().ConnConfig, Conn: conn, Replicas: 1,
		Tail: tailOf(t, b.Pool),
	}))(t)
	testdb.Background(t, r.Run)
	b.awaitRelayed()

	for _, user := range []string{"counts", "search"} {
		var denied testdb.Log
		conn, js := as(user, nats.CustomInboxPrefix("_INBOX_"+user),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
				_, _ = fmt.Fprintln(&denied, err) // never fails
			}))
		isDenied := func(subject string) bool { return strings.Contains(denied.String(), `"`+subject+`"`) }
		read := &bundle{t: t, js: js}
		if n := len(read.messages(name)); n != 4 {
			t.Errorf("%s reads %d events", user, n)
		}
		inbox := conn.NewInbox()
		replies := testdb.Must(conn.SubscribeSync(inbox))(t)
		words := "$JS.API.STREAM.MSG.GET." + relay.PersonalStreamName(ledgertest.Origin)
		testdb.NoError(t, conn.PublishRequest(words, inbox, []byte(`{"seq":1}`)))
		var reply *nats.Msg
		testdb.Eventually(t, user+" gets words or an error", func() bool {
			reply, _ = replies.NextMsg(time.Millisecond) // fails without a reply
			return reply != nil || isDenied(words)
		})
		if may := reply != nil && strings.Contains(string(reply.Data), `"data"`); may != (user == "search") {
			t.Errorf("%s may read words: %v", user, may)
		}
		for _, subject := range []string{"novelgate.personal.v1.>", "_INBOX.>", ">"} {
			testdb.Must(conn.SubscribeSync(subject))(t)
			testdb.Eventually(t, user+" may not subscribe to "+subject, func() bool { return isDenied(subject) })
		}
		const forged = "novelgate.v1.00.forged"
		testdb.NoError(t, conn.Publish(forged, nil))
		testdb.Eventually(t, user+" may not publish events", func() bool { return isDenied(forged) })
	}
}
