package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// SSEClient is a client of HTTP+SSE (2024-11-05 basic/transports#http-with-sse). The
// Exchange is its stream; the session ends with it.
type SSEClient struct {
	*Exchange
	// Endpoint is the content of the first event, Messages the URL that results from it.
	Endpoint string
	Messages string
	// Header is sent with every message.
	Header http.Header
	HTTP   *http.Client

	ids atomic.Int64
}

// OpenSSE opens a stream and waits for its first event. The context ends the stream. A
// refused stream is returned with its Status and no Endpoint.
func OpenSSE(ctx context.Context, client *http.Client, address string, header http.Header) (*SSEClient, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	c := &SSEClient{Exchange: newExchange(resp), Header: header, HTTP: client}
	if !c.Stream {
		return c, nil
	}
	first, err := readEvent(c.reader)
	if err != nil || first.name != "endpoint" {
		resp.Body.Close()
		return nil, fmt.Errorf("the first event is %+v: %w", first, err)
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	messages, err := base.Parse(first.data)
	if err != nil {
		return nil, err
	}
	c.Endpoint, c.Messages = first.data, messages.String()
	return c, nil
}

// Begin begins the session with initialize and notifications/initialized. It returns the
// answer to initialize.
func (c *SSEClient) Begin(ctx context.Context, revision, caps string) (Message, error) {
	answer, err := c.Call(ctx, "initialize", fmt.Sprintf(
		`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"mcptest","version":"1"}}`, revision, caps))
	if err != nil || answer.Error != nil {
		return answer, err
	}
	return answer, c.Notify(ctx, "notifications/initialized", "{}")
}

// Call makes a request and reads until its response. The messages before it are in Before.
func (c *SSEClient) Call(ctx context.Context, method, params string) (Message, error) {
	id := strconv.FormatInt(c.ids.Add(1), 10)
	if err := c.Send(ctx, id, method, params); err != nil {
		return Message{}, err
	}
	return c.Answered(id)
}

// Answered reads until the response to a request. The messages before it are in Before.
func (c *SSEClient) Answered(id string) (Message, error) {
	return c.find("a response to "+id, func(m Message) bool { return m.IsResponse() && bytes.Equal(m.ID, []byte(id)) })
}

// Send sends a request with the id as it appears on the wire. It must be accepted.
func (c *SSEClient) Send(ctx context.Context, id, method, params string) error {
	return c.accepted(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
}

// Notify sends a notification. It must be accepted.
func (c *SSEClient) Notify(ctx context.Context, method, params string) error {
	return c.accepted(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// Answer answers a request of the server. It must be accepted.
func (c *SSEClient) Answer(ctx context.Context, id json.RawMessage, result string) error {
	return c.accepted(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (c *SSEClient) accepted(ctx context.Context, body string) error {
	x, err := c.Post(ctx, body, nil)
	if err != nil {
		return err
	}
	defer x.Close()
	if text := x.Text(); x.Status != http.StatusAccepted || text != "" {
		return fmt.Errorf("status %d with %q: want 202 and nothing", x.Status, text)
	}
	return nil
}

// Post sends a body unchanged; header overrides c.Header.
func (c *SSEClient) Post(ctx context.Context, body string, header http.Header) (*Exchange, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Messages, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, c.Header)
	maps.Copy(req.Header, header)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	return newExchange(resp), nil
}
