package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Client talks to one endpoint. Its fields may be changed between requests, but not during
// one. Its methods may be called concurrently.
type Client struct {
	URL      string
	Revision *wire.Revision
	Name     string // in its client info, "mcptest" by default
	// Caps is the capabilities object of the client, "{}" by default.
	Caps string
	// LogLevel is the log level in each request of a stateless client; "" for none.
	LogLevel string
	// Header is sent with every request. An empty value removes a default header.
	Header http.Header
	// Session is the session id, set by Open or by the test.
	Session string
	HTTP    *http.Client

	ids atomic.Int64
}

// NewClient returns a client for an endpoint. It sends nothing yet.
func NewClient(url string, revision *wire.Revision) *Client {
	return &Client{URL: url, Revision: revision, Name: "mcptest", Caps: "{}", HTTP: http.DefaultClient}
}

// Open begins a session: initialize and notifications/initialized. It does nothing for a
// stateless client.
func (c *Client) Open(ctx context.Context) error {
	if !c.Revision.Stateful {
		return nil
	}
	x, err := c.Post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{
		"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":%q,"version":"1"}}}`,
		c.ids.Add(1), c.Revision.Name, c.Caps, c.Name))
	if err != nil {
		return err
	}
	answer, err := x.Response()
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	c.Session = x.Header.Get("Mcp-Session-Id")
	_, err = c.Notify(ctx, "notifications/initialized", "{}")
	return err
}

// Call makes a request and reads its response. before holds the earlier messages of its
// stream. A JSON-RPC error is in the response, not in err.
func (c *Client) Call(ctx context.Context, method, params string) (response Message, before []Message, err error) {
	x, err := c.Send(ctx, method, params)
	if err != nil {
		return Message{}, nil, err
	}
	defer x.Close()
	response, err = x.Response()
	return response, x.Before, err
}

// Send makes a request with a new id and returns the answer as it arrives.
func (c *Client) Send(ctx context.Context, method, params string) (*Exchange, error) {
	return c.SendID(ctx, strconv.FormatInt(c.ids.Add(1), 10), method, params)
}

// SendID is Send with the id as it appears on the wire: 7 or "7".
func (c *Client) SendID(ctx context.Context, id, method, params string) (*Exchange, error) {
	params, err := c.withMeta(params)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if !c.Revision.Stateful {
		header.Set("Mcp-Method", method)
		var named struct{ Name, URI, TaskID string }
		if json.Unmarshal([]byte(params), &named) == nil {
			switch method {
			case "tools/call", "prompts/get":
				header.Set("Mcp-Name", named.Name)
			case "resources/read":
				header.Set("Mcp-Name", named.URI)
			case "tasks/get", "tasks/update", "tasks/cancel":
				header.Set("Mcp-Name", named.TaskID)
			}
		}
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	return c.Do(ctx, http.MethodPost, body, header)
}

// Notify sends a notification and returns the HTTP status.
func (c *Client) Notify(ctx context.Context, method, params string) (status int, err error) {
	x, err := c.Post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
	if err != nil {
		return 0, err
	}
	defer x.Close()
	return x.Status, nil
}

// Answer answers a request of the server. It requires status 202.
func (c *Client) Answer(ctx context.Context, id json.RawMessage, result string) error {
	x, err := c.Post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
	if err != nil {
		return err
	}
	defer x.Close()
	if x.Status != http.StatusAccepted {
		return fmt.Errorf("answer to %s: status %d: %s", id, x.Status, x.Text())
	}
	return nil
}

// Post sends a body unchanged with the usual headers.
func (c *Client) Post(ctx context.Context, body string) (*Exchange, error) {
	return c.Do(ctx, http.MethodPost, body, nil)
}

// Get opens the GET stream of a session, or resumes a stream after an event.
func (c *Client) Get(ctx context.Context, lastEventID string) (*Exchange, error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	if lastEventID != "" {
		header.Set("Last-Event-Id", lastEventID)
	}
	return c.Do(ctx, http.MethodGet, "", header)
}

// Delete ends the session and returns the HTTP status.
func (c *Client) Delete(ctx context.Context) (status int, err error) {
	x, err := c.Do(ctx, http.MethodDelete, "", nil)
	if err != nil {
		return 0, err
	}
	defer x.Close()
	return x.Status, nil
}

// Do sends one HTTP request. header overrides c.Header, and both override the headers that
// the revision requires. The context covers the whole exchange, not only the request.
func (c *Client) Do(ctx context.Context, method, body string, header http.Header) (*Exchange, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.Session != "" {
		req.Header.Set("Mcp-Session-Id", c.Session)
	}
	if !c.Revision.Stateful || (c.Session != "" && c.Revision.VersionHeader) {
		req.Header.Set("Mcp-Protocol-Version", c.Revision.Name)
	}
	for _, set := range []http.Header{c.Header, header} {
		for name, values := range set {
			req.Header[name] = values
			if len(values) == 1 && values[0] == "" {
				delete(req.Header, name)
			}
		}
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	return newExchange(resp), nil
}

// withMeta adds to params what a stateless request must have in _meta.
func (c *Client) withMeta(params string) (string, error) {
	if params == "" {
		params = "{}"
	}
	if c.Revision.Stateful {
		return params, nil
	}
	var given struct {
		Meta json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal([]byte(params), &given); err != nil {
		return "", fmt.Errorf("the test's own JSON %.200q: %w", params, err)
	}
	needed := map[string]string{
		wire.MetaVersion:    strconv.Quote(c.Revision.Name),
		wire.MetaClientInfo: fmt.Sprintf(`{"name":%q,"version":"1"}`, c.Name),
		wire.MetaClientCaps: c.Caps,
	}
	if c.LogLevel != "" {
		needed[wire.MetaLogLevel] = strconv.Quote(c.LogLevel)
	}
	meta, err := merge(string(given.Meta), needed)
	if err != nil {
		return "", err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(params), &object); err != nil {
		return "", err
	}
	object["_meta"] = json.RawMessage(meta)
	out, err := json.Marshal(object)
	return string(out), err
}
