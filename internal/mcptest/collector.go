package mcptest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Collector takes traces by OTLP over HTTP, as protobuf.
type Collector struct {
	// URL is without a path.
	URL  string
	http *httptest.Server

	mu      Cond // guards the fields below; wakes when something arrives
	spans   []TracedSpan
	all     strings.Builder // everything that came, as text, with its headers
	answers http.HandlerFunc
	came    int
}

// TracedSpan is a span as it arrived. Ids are hex digits.
type TracedSpan struct {
	Trace, ID, Parent, Name, State string
	Kind                           v1.Span_SpanKind
	Failed                         bool
	Links                          []string          // ids of spans
	Attributes                     map[string]string // values as text
}

// NewCollector starts a Collector.
func NewCollector() *Collector {
	c := &Collector{}
	c.http = httptest.NewServer(c)
	c.URL = c.http.URL
	return c
}

// Close ends all requests.
func (c *Collector) Close() {
	c.http.CloseClientConnections()
	c.http.Close()
}

// Break answers requests in another way, nil for the usual one. Their spans are not taken.
func (c *Collector) Break(how http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = how
}

// ServeHTTP takes spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &m)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
		http.Error(w, "want POST /v1/traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.came++
	how := c.answers
	if how == nil {
		c.take(r.Header, &m)
	}
	c.mu.Wake()
	c.mu.Unlock()
	if how != nil {
		how(w, r)
	}
}

func (c *Collector) take(h http.Header, m *collector.ExportTraceServiceRequest) {
	_ = h.Write(&c.all)
	c.all.WriteString(prototext.Format(m))
	for _, resource := range m.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				span := TracedSpan{
					Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					Name: s.Name, State: s.TraceState, Kind: s.Kind, Failed: s.Status.GetCode() == v1.Status_STATUS_CODE_ERROR,
					Attributes: map[string]string{},
				}
				for _, a := range s.Attributes {
					text := a.Value.GetStringValue()
					if text == "" {
						text = prototext.Format(a.Value)
					}
					span.Attributes[a.Key] = text
				}
				for _, l := range s.Links {
					span.Links = append(span.Links, hex.EncodeToString(l.SpanId))
				}
				c.spans = append(c.spans, span)
			}
		}
	}
}

// Spans returns the spans of a trace, those of all traces for "".
func (c *Collector) Spans(trace string) (of []TracedSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if trace == "" || s.Trace == trace {
			of = append(of, s)
		}
	}
	return of
}

// Await waits until n requests have come. Errors: that of ctx.
func (c *Collector) Await(ctx context.Context, n int) error {
	return c.mu.Await(ctx, func() bool { return c.came >= n })
}

// String is everything that was taken, as text.
func (c *Collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.String()
}
