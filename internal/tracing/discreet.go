package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// shown are the attributes of spans that are exported. The libraries have more, such as paths and addresses of clients,
// which contain titles and Idempotency-Keys, or tell who reads.
var shown = map[attribute.Key]bool{
	"http.request.method": true, "http.route": true, "http.response.status_code": true, "novelgate.request.id": true,
	"error.type": true, "novelgate.commands": true, "novelgate.events": true, "novelgate.projection": true,
	"db.system.name": true, "db.operation.batch.size": true, "pgx.rows_affected": true, "pgx.sql_state": true,
}

// discreet exports spans without what may be personal or secret: other attributes, and texts of errors, which may quote
// values.
type discreet struct{ sdktrace.SpanExporter }

func (d discreet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	safe := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		safe[i] = discreetSpan{span}
	}
	return d.SpanExporter.ExportSpans(ctx, safe)
}

type discreetSpan struct{ sdktrace.ReadOnlySpan }

func (s discreetSpan) Attributes() (kept []attribute.KeyValue) {
	for _, a := range s.ReadOnlySpan.Attributes() {
		if shown[a.Key] {
			kept = append(kept, a)
		}
	}
	return kept
}

func (discreetSpan) Events() []sdktrace.Event { return nil }

func (s discreetSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}
