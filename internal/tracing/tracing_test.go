package tracing_test

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"novelgate/internal/tracing"
)

// TestNothingRunsWithoutAnEndpoint: then there is no tracer, and no wrapper around the handler.
func TestNothingRunsWithoutAnEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	off, err := tracing.New(t.Context(), "test", slog.New(slog.DiscardHandler))
	if off != nil || err != nil || off.Tracer() != nil || off.Statements() != nil {
		t.Errorf("%v, %v", off, err)
	}
	handler := http.NewServeMux()
	if got := off.Handler(handler); reflect.ValueOf(got).Pointer() != reflect.ValueOf(handler).Pointer() {
		t.Errorf("the handler is wrapped in a %T", got)
	}
	off.Stop(t.Context())
}

// TestBatch: a batch is in the trace of the first request that is sampled, and links each request once.
func TestBatch(t *testing.T) {
	t.Parallel()
	const (
		one     = "00-11111111111111111111111111111111-1111111111111111-01"
		two     = "00-22222222222222222222222222222222-2222222222222222-01"
		dropped = "00-33333333333333333333333333333333-3333333333333333-00"
	)
	type batch struct {
		Parent string // "" for a root
		Links  []string
	}
	for name, test := range map[string]struct {
		requests []string
		want     []batch
	}{
		"no request is traced":  {[]string{"", "no trace"}, []batch{{}}},
		"no request is sampled": {[]string{dropped, ""}, nil},
		"several": {[]string{"", dropped, one, one, two}, []batch{{"1111111111111111", []string{
			"3333333333333333", "1111111111111111", "2222222222222222",
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			var requests []trace.SpanContext
			for _, text := range test.requests {
				requests = append(requests, tracing.Parse(text))
			}
			_, span := tracing.StartBatch(context.Background(), provider.Tracer("test"), "batch", requests)
			span.End()
			var got []batch
			for _, span := range recorder.Ended() {
				b := batch{}
				if span.Parent().IsValid() {
					b.Parent = span.Parent().SpanID().String()
				}
				for _, link := range span.Links() {
					b.Links = append(b.Links, link.SpanContext.SpanID().String())
				}
				got = append(got, b)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("batches (-want +got)\n%s", diff)
			}
		})
	}
}
