package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// StartBatch starts the span of work for several requests at once. It links those that have a span, each once.
func StartBatch(
	ctx context.Context, tracer trace.Tracer, name string, requests []trace.SpanContext, attributes ...attribute.KeyValue,
) (context.Context, trace.Span) {
	var links []trace.Link
	var parent trace.SpanContext
	linked := map[trace.SpanID]bool{}
	for _, request := range requests {
		if !request.IsValid() || linked[request.SpanID()] {
			continue
		}
		linked[request.SpanID()] = true
		links = append(links, trace.Link{SpanContext: request})
		if !parent.IsSampled() && (request.IsSampled() || !parent.IsValid()) {
			parent = request
		}
	}
	// Without a parent, the sampler decides. With one that is not sampled, it leaves the batch out, too.
	return tracer.Start(trace.ContextWithSpanContext(ctx, parent), name, trace.WithLinks(links...),
		trace.WithAttributes(attributes...))
}

// Parse returns the span of a traceparent; an invalid one if that is none.
func Parse(traceParent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceParent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
