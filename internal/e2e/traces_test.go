package e2e_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"novelgate/internal/testdb"
	"novelgate/projections"
)

// collector receives traces by OTLP over HTTP.
type collector struct {
	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	sent     []byte // all of it
}

// collect starts a collector, for the services of the test that start afterwards.
func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request coltracepb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Tenant") != "seven" {
			t.Errorf("%v: the collector gets %s %v", err, r.URL, r.Header)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent = append(c.sent, body...)
		for _, of := range request.GetResourceSpans() {
			c.resource = attributes(of.GetResource().GetAttributes())
			for _, scope := range of.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven")
	return c
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range list {
		found[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return found
}

// named returns the spans with a name.
func (c *collector) named(name string) (found []*tracepb.Span) {
	for _, span := range c.spans {
		if span.GetName() == name {
			found = append(found, span)
		}
	}
	return found
}

// TestTraces: the trace of a client goes on with its request, the batch that commits it with its statements, and the
// batches of the projections. Nothing personal and no key is exported.
func TestTraces(t *testing.T) {
	c := collect(t)
	s := Start(t, testdb.New(t))
	p, title, key := s.NewPartner(t), Unique("Traced"), Key()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	request := p.Request(PostsPath, key, comment(title, "reader", "words").JSON(t))
	request.Header = http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}, "X-Request-Id": {"request"}}
	posted := s.Send(t, request).WantPost(t, 201)
	address := testdb.Must(url.Parse(posted.URL))(t)
	s.Send(t, Request{Path: address.Path})
	p.Get(t, "/api/integrations/deliveries/"+key)
	s.Send(t, Request{Path: "/healthz"})
	awaitProjections(t, s.DatabaseURL)
	s.Stop(t)

	id := func(b []byte) string { return hex.EncodeToString(b) }
	links := func(span *tracepb.Span) (to []string) {
		for _, link := range span.GetLinks() {
			to = append(to, id(link.GetTraceId())+" "+id(link.GetSpanId()))
		}
		return to
	}
	requests := c.named("POST /api/integrations/posts")
	if len(requests) != 1 || id(requests[0].GetTraceId()) != trace || id(requests[0].GetParentSpanId()) != parent ||
		requests[0].GetKind() != tracepb.Span_SPAN_KIND_SERVER {
		t.Fatalf("the request: %v", requests)
	}
	if a := attributes(requests[0].GetAttributes()); a["http.route"] != "/api/integrations/posts" ||
		a["novelgate.request.id"] != "request" || a["http.request.method"] != "POST" {
		t.Errorf("attributes of the request: %v", a)
	}
	served := requests[0].GetSpanId()
	batches := slices.DeleteFunc(c.named("commit batch"), func(b *tracepb.Span) bool {
		return !bytes.Equal(b.GetParentSpanId(), served)
	})
	if len(batches) != 1 || id(batches[0].GetTraceId()) != trace ||
		!slices.Equal(links(batches[0]), []string{trace + " " + id(served)}) {
		t.Fatalf("the batch of the committer: %v", batches)
	}
	if !slices.ContainsFunc(c.spans, func(of *tracepb.Span) bool {
		return bytes.Equal(of.GetParentSpanId(), batches[0].GetSpanId()) && of.GetName() == "batch start"
	}) || len(c.named("batch query INSERT title_lookup")) == 0 {
		t.Error("the batch of the committer lacks its statements")
	}
	var applied, want []string
	for _, batch := range c.named("apply batch") {
		if id(batch.GetTraceId()) == trace && id(batch.GetParentSpanId()) == parent &&
			slices.Equal(links(batch), []string{trace + " " + parent}) {
			applied = append(applied, attributes(batch.GetAttributes())["novelgate.projection"])
		}
	}
	for _, projection := range projections.All() {
		want = append(want, projection.Name())
	}
	slices.Sort(applied)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(applied)); diff != "" {
		t.Errorf("projections with a batch in the trace (-want +got)\n%s", diff)
	}
	for name, n := range map[string]int{
		"GET /novels/{slug}/discussion": 1, "GET /api/integrations/deliveries/{idempotencyKey}": 1, "GET /healthz": 0,
	} {
		if found := c.named(name); len(found) != n {
			t.Errorf("%s has %d spans, want %d", name, len(found), n)
		}
	}
	if c.resource["service.name"] != "novelgate" {
		t.Errorf("resource %v", c.resource)
	}
	wantNoSecret(t, "a trace", c.sent)
	for _, private := range []string{title, key, address.Path, "127.0.0.1"} {
		if bytes.Contains(c.sent, []byte(private)) {
			t.Errorf("%q is exported", private)
		}
	}
}

// TestCollectorIsAway: a collector that does not answer holds nothing up, and is logged once a minute.
func TestCollectorIsAway(t *testing.T) {
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "100", "OTEL_BSP_SCHEDULE_DELAY": "10",
		"OTEL_BSP_MAX_QUEUE_SIZE": "1",
	} {
		t.Setenv(name, value)
	}
	s := Start(t, testdb.New(t))
	p, title := s.NewPartner(t), Unique("Untraced")
	const line = "traces are not exported"
	testdb.Eventually(t, "the log says that the collector is away", func() bool {
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
		return strings.Contains(s.stderr.String(), line)
	})
	for range 50 {
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	s.Stop(t)
	if n := strings.Count(s.stderr.String(), line); n != 1 {
		t.Errorf("%d lines\n%s", n, s.stderr)
	}
}

// TestTracesAreRefused: the service does not start with a collector that it cannot send to.
func TestTracesAreRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")
	wantRefusedStart(t, []string{"novelgate: OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address"})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	wantRefusedStart(t, []string{"novelgate: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf"})
}
