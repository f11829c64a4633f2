// Package tracing makes the spans of calls (OpenTelemetry, with its conventions for MCP). It sends
// them to a collector by OTLP, and metrics likewise. docs/tracing.md says what is in them.
//
// It owns the trace context of calls, the decision which of them are traced, the attributes
// of spans, the queue and the exporter. It is the only package that imports OpenTelemetry;
// others see Tracer, Span and mcp.Trace. It leaves to the front, and to upstreams, where a span
// begins and ends. Each configuration has one goroutine, which sends; Close waits for it.
//
//	config.go  the section "tracing"
//	collector.go  where traces and metrics go
//	push.go    sending metrics
//	tracer.go  turning traces on and off
//	origin.go  W3C Trace Context, and which calls are traced
//	span.go    a span, its attributes and its duration
//	queue.go   from the calls to the collector
package tracing
