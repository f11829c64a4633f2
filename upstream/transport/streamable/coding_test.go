package streamable_test

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestAnswersThatAreCompressed although nobody asked: JSON and event streams, at once as they
// are flushed, and up to the limit for answers.
func TestAnswersThatAreCompressed(t *testing.T) {
	type coder interface {
		io.WriteCloser
		Flush() error
	}
	for name, tt := range map[string]struct {
		coding string
		make   func(io.Writer) coder
		want   string // part of the error; "" for a result
	}{
		"gzip":                {"gzip", func(w io.Writer) coder { return gzip.NewWriter(w) }, ""},
		"GZip":                {"GZip", func(w io.Writer) coder { return gzip.NewWriter(w) }, ""},
		"deflate":             {"deflate", func(w io.Writer) coder { return zlib.NewWriter(w) }, ""},
		"deflate, unwrapped":  {"deflate", func(w io.Writer) coder { f, _ := flate.NewWriter(w, 5); return f }, ""},
		"another one":         {"br", func(w io.Writer) coder { return gzip.NewWriter(w) }, `"br"`},
		"not what it says":    {"gzip", func(w io.Writer) coder { return zlib.NewWriter(w) }, "gzip: invalid header"},
		"one after the other": {"gzip, deflate", func(w io.Writer) coder { return gzip.NewWriter(w) }, `"gzip, deflate"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := make(chan struct{}, 1)
			f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				if m.Method != mcp.MethodToolsCall {
					return false
				}
				w.Header().Set("Content-Encoding", tt.coding)
				out := tt.make(w)
				defer out.Close()
				switch named(m) {
				case "json":
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(out, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+fake.OK+`}`)
				case "large":
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(out, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"x":"`+
						strings.Repeat("x", 1<<20)+`"}}`)
				case "refused":
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(out, `{"jsonrpc":"2.0","id":`+string(m.ID)+
						`,"error":{"code":-32602,"message":"no such colour"}}`)
				case "events":
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(out,
						`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`+"\n\n")
					_ = out.Flush()
					_ = http.NewResponseController(w).Flush()
					select {
					case <-told: // before the answer is there
					case <-r.Context().Done():
					}
					_, _ = io.WriteString(out, fake.Event(m, "", fake.OK))
				}
				return true
			})
			u := f.Upstream(t, upstream.Config{Limits: upstream.Limits{ResultBytes: 64 << 10}})
			for _, name := range []string{"json", "events"} {
				c := fake.Tool(name)
				c.Notify = func(mcp.Event) { told <- struct{}{} }
				reply, err := fake.Do(t, u, c)
				switch {
				case tt.want != "":
					e := fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
					if !strings.Contains(e.Message, tt.want) {
						t.Errorf("%s: %s, want %s in it", name, e.Message, tt.want)
					}
				case err != nil || string(reply.Result) != fake.OK:
					t.Errorf("%s: %+v, %v", name, reply, err)
				}
			}
			if got := f.Requests(mcp.MethodToolsCall)[0].Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("Accept-Encoding %q was asked for", got)
			}
			if tt.want != "" {
				return
			}
			_, err := fake.Do(t, u, fake.Tool("large"))
			fake.WantError(t, err, mcp.CodeUpstreamAnswerTooLarge, mcp.ExecutedUnknown)
			if _, err := fake.Do(t, u, fake.Tool("refused")); err == nil || !strings.Contains(err.Error(), "no such colour") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// named returns the name of the tool that is called.
func named(m fake.Message) string { return mcp.Raw(m.Params).At("name").Text() }
