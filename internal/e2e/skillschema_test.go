package e2e

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// These tests validate every message about skills between a client and a gateway, and every
// request to a scripted server, against the schemas of the two documents
// (testdata/skills/schema).

//go:embed testdata/skills/schema/*.json
var skillSchemaFiles embed.FS

const (
	primitive = "sep-2076"
	extension = "sep-2640"
)

// skillSchemas are the schemas, keyed by "document definition".
var skillSchemas = sync.OnceValues(func() (map[string]*jsonschema.Resolved, error) {
	all := make(map[string]*jsonschema.Resolved)
	for _, document := range []string{primitive, extension} {
		text, err := skillSchemaFiles.ReadFile("testdata/skills/schema/" + document + ".json")
		if err != nil {
			return nil, err
		}
		var names struct {
			Defs map[string]json.RawMessage `json:"$defs"`
		}
		if err := json.Unmarshal(text, &names); err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
		for name := range names.Defs {
			var schema jsonschema.Schema
			if err := json.Unmarshal(text, &schema); err != nil {
				return nil, fmt.Errorf("%s: %w", document, err)
			}
			schema.Ref = "#/$defs/" + name
			resolved, err := schema.Resolve(nil)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", document, name, err)
			}
			all[document+" "+name] = resolved
		}
	}
	return all, nil
})

// conforms validates a JSON text.
func conforms(document, definition string, text []byte) error {
	all, err := skillSchemas()
	if err != nil {
		return err
	}
	schema := all[document+" "+definition]
	if schema == nil {
		return fmt.Errorf("%s has no %s", document, definition)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("no %s of %s: %w: %.2000s", definition, document, err, text)
	}
	return nil
}

// skillWatch validates what passes a client's transport.
type skillWatch struct {
	next http.RoundTripper

	mu       sync.Mutex // guards the fields below
	declared bool       // the client's session declares the extension
	asked    map[string]skillRequest
	problems []string
}

// skillRequest is a request about skills that waits for its answer.
type skillRequest struct {
	method    string
	text      []byte
	byURI     bool
	declared  bool
	stateless bool
}

// watchSkills wraps a transport: an invalid message fails the test.
func watchSkills(t *testing.T, next http.RoundTripper) *skillWatch {
	w := &skillWatch{next: next, asked: make(map[string]skillRequest)}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, problem := range w.problems {
			t.Error("schema of skills:", problem)
		}
	})
	return w
}

func (w *skillWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(body)
		body.Close()
		if err != nil {
			return nil, err
		}
		w.sent(text)
	}
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: w,
		stream: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}
	return resp, nil
}

// sent handles a message of the client.
func (w *skillWatch) sent(text []byte) {
	if !bytes.Contains(text, []byte("skills/")) && !bytes.Contains(text, []byte(`"resources/directory/read"`)) &&
		!bytes.Contains(text, []byte(`"initialize"`)) {
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	if json.Unmarshal(text, &m) != nil {
		return // a test sent something that is not a message
	}
	declared := bytes.Contains(m.Params, []byte(`"io.modelcontextprotocol/skills":{}`))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m.Method {
	case "initialize":
		w.declared = declared
	case "skills/list", "skills/get", "resources/directory/read":
		w.asked[string(m.ID)] = skillRequest{
			method: m.Method, text: text, byURI: hasMember(m.Params, "uri"),
			declared: declared || w.declared, stateless: bytes.Contains(m.Params, []byte(stateless)),
		}
	}
}

// hasMember reports whether an object has a member.
func hasMember(object json.RawMessage, member string) bool {
	var all map[string]json.RawMessage
	return json.Unmarshal(object, &all) == nil && all[member] != nil
}

// heard handles a message of the gateway.
func (w *skillWatch) heard(text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) == 0 && !bytes.Contains(text, []byte("notifications/skills/")) {
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Result json.RawMessage
	}
	if json.Unmarshal(text, &m) != nil {
		return
	}
	if m.Method == "notifications/skills/list_changed" {
		w.note(conforms(primitive, "SkillListChangedNotification", text))
		return
	}
	r, ok := w.asked[string(m.ID)]
	if !ok || m.Method != "" {
		return
	}
	delete(w.asked, string(m.ID))
	if m.Result != nil { // a refused request need not be valid
		w.note(r.check(text))
	}
}

func (w *skillWatch) note(err error) {
	if err != nil && len(w.problems) < 20 {
		w.problems = append(w.problems, err.Error())
	}
}

// check validates an answered request and its answer, in each form that applies.
func (r skillRequest) check(answer []byte) error {
	var errs []error
	both := func(document, kind string) {
		errs = append(errs, conforms(document, kind+"Request", r.text), conforms(document, kind+"Response", answer))
	}
	caching := "CachedResponse"
	switch {
	case r.method == "skills/list":
		both(extension, "ListSkills")
		if !r.declared {
			both(primitive, "ListSkills")
		}
	case r.method == "resources/directory/read":
		both(extension, "ReadDirectory")
	case r.byURI:
		both(extension, "GetSkill")
		if !r.declared {
			errs = append(errs, conforms(primitive, "GetSkillByURIResponse", answer))
		}
	default:
		both(primitive, "GetSkill")
		if bytes.Contains(answer, []byte(`"resultType":"input_required"`)) {
			caching = "CompleteResponse" // the user is asked first
		}
	}
	if r.stateless {
		errs = append(errs, conforms(extension, caching, answer))
	}
	return errors.Join(errs...)
}

// watchedBody passes the messages of a body to a watch as it is read.
type watchedBody struct {
	io.ReadCloser
	watch  *skillWatch
	stream bool

	mu   sync.Mutex // guards the fields below
	text []byte     // of a message; of a stream, the incomplete event
	past int        // no event ends before this index of text
	done bool
}

func (b *watchedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p[:n]...)
	if b.stream {
		b.events()
	} else if errors.Is(err, io.EOF) {
		b.whole()
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.mu.Lock()
	if !b.stream {
		b.whole()
	}
	b.mu.Unlock()
	return b.ReadCloser.Close()
}

// whole handles a body that is one message.
func (b *watchedBody) whole() {
	if !b.done {
		b.done = true
		b.watch.heard(b.text)
	}
}

// events handles the events that are complete.
func (b *watchedBody) events() {
	for {
		end := bytes.Index(b.text[b.past:], []byte("\n\n"))
		if end < 0 {
			b.past = max(len(b.text)-1, 0)
			return
		}
		event := b.text[:b.past+end+1]
		b.text, b.past = b.text[b.past+end+2:], 0
		for line := range bytes.Lines(event) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				b.watch.heard(bytes.TrimSpace(data))
			}
		}
	}
}

// checkAsked validates the requests about skills to a scripted server.
func checkAsked(t *testing.T, s *mcptest.Server) {
	for method, definition := range map[string]string{"skills/list": "ListSkillsRequest", "skills/get": "GetSkillRequest",
		"resources/directory/read": "ReadDirectoryRequest"} {
		for _, r := range s.Received(method) {
			document := extension
			if method == "skills/get" && hasMember(r.Params, "name") {
				document = primitive
			}
			if err := conforms(document, definition, []byte(r.Text)); err != nil {
				t.Error("schema of skills:", err)
			}
		}
	}
}
