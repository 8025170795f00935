// Package tracing exports OpenTelemetry traces: requests, batches of commands and of projections, and statements. The
// variables of the OpenTelemetry SDK configure it, and without an endpoint in them nothing of it runs.
//
// A batch has a place in one trace only: that of its first request that is sampled. It links all its requests.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Exporter exports the spans of a process. A nil Exporter does nothing.
type Exporter struct {
	provider *sdktrace.TracerProvider
	logger   *slog.Logger

	mu     sync.Mutex
	logged time.Time // the latest line about an error
}

const (
	errorInterval = time.Minute     // minimum time between two lines about errors
	stopTimeout   = 5 * time.Second // for the spans that are left in the end
	// maxLinks is the number of commands in a batch of the committer.
	maxLinks = 256
)

// New returns an Exporter, or nil if no endpoint is set. It fails if the endpoint is no address of OTLP over HTTP.
// A collector that is away or slow costs spans, and nothing waits for it.
func New(ctx context.Context, version string, logger *slog.Logger) (*Exporter, error) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	isOn := false
	for _, name := range []string{prefix + "ENDPOINT", prefix + "TRACES_ENDPOINT"} {
		address := os.Getenv(name)
		isOn = isOn || address != ""
		if address != "" && !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
			return nil, fmt.Errorf("%s must be an http or https address", name)
		}
	}
	for _, name := range []string{prefix + "PROTOCOL", prefix + "TRACES_PROTOCOL"} {
		if isOn && os.Getenv(name) == "grpc" {
			return nil, fmt.Errorf("%s must be http/protobuf", name)
		}
	}
	if !isOn {
		return nil, nil
	}
	e := &Exporter{logger: logger}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { e.log(ctx, err) }))
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "novelgate"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	client, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	if os.Getenv("OTEL_SPAN_LINK_COUNT_LIMIT") == "" {
		limits.LinkCountLimit = maxLinks
	}
	e.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(described), sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithBatcher(discreet{client}))
	return e, nil
}

// log logs an error, unless it has logged one less than errorInterval ago.
func (e *Exporter) log(ctx context.Context, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); now.Sub(e.logged) >= errorInterval { //nolint:forbidigo // the distance of two lines
		e.logged = now
		e.logger.WarnContext(ctx, "traces are not exported at present", slog.String("reason", err.Error()))
	}
}

// Stop exports the spans that are left, for a few seconds at most.
func (e *Exporter) Stop(ctx context.Context) {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		e.log(ctx, err)
	}
}

// Tracer returns the tracer of batches; nil if nothing is traced.
func (e *Exporter) Tracer() trace.Tracer {
	if e == nil {
		return nil
	}
	return e.provider.Tracer("novelgate")
}

// Handler traces the requests to a handler, except probes of health. The trace of a client goes on. The handler calls
// Answered for each request.
func (e *Exporter) Handler(next http.Handler) http.Handler {
	if e == nil {
		return next
	}
	return otelhttp.NewHandler(next, "HTTP", otelhttp.WithTracerProvider(e.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(operation string, _ *http.Request) string { return operation }),
		otelhttp.WithFilter(func(r *http.Request) bool { return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" }))
}

// Answered completes the span of a request. code is that of its problem, if any.
func Answered(ctx context.Context, requestID, method, route, code string) {
	span := trace.SpanFromContext(ctx)
	span.SetName(method + " " + route)
	span.SetAttributes(attribute.String("http.route", route), attribute.String("novelgate.request.id", requestID))
	if code != "" {
		span.SetAttributes(attribute.String("error.type", code))
	}
}

var (
	sqlComment = regexp.MustCompile(`--[^\n]*`)
	// table matches the first table or function of a statement.
	table = regexp.MustCompile(`(?i)\b(?:from|into|update)\s+([a-z_][a-z0-9_.]*)`)
)

// Statements traces the statements of connections by their kind and table, within the spans of requests and batches;
// nil if nothing is traced.
func (e *Exporter) Statements() pgx.QueryTracer {
	if e == nil {
		return nil
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(e.provider), otelpgx.WithQuerySpanNamePrefix(),
		otelpgx.WithDisableSQLStatementInAttributes(), otelpgx.WithDisableConnectionDetailsInAttributes(),
		otelpgx.WithSpanNameFunc(func(statement string) string {
			statement = sqlComment.ReplaceAllString(statement, "")
			name := otelpgx.SQLOperationName(context.Background(), statement)
			if found := table.FindStringSubmatch(statement); found != nil {
				name += " " + found[1]
			}
			return name
		}))
}
