package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// callLimit is how long a request may take before it counts as lost.
const callLimit = 30 * time.Second

// client is an MCP client on one connection. It writes HTTP by hand and reads it with
// net/http, to take little CPU from what is measured. It is not safe for concurrent use.
type client struct {
	url       *url.URL
	stateless bool
	token     string // of its user; "" for none
	session   string
	conn      net.Conn
	in        *bufio.Reader
	id        int
	request   []byte // reused
}

// dial connects, and begins a session for a stateful client. token is that of its user.
func dial(endpoint string, stateless bool, token string) (*client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := open(u)
	if err != nil {
		return nil, err
	}
	c := &client{url: u, stateless: stateless, token: token, conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	if stateless {
		return c, nil
	}
	if err := c.initialize(); err != nil {
		return nil, errors.Join(fmt.Errorf("initialize: %w", err), c.close())
	}
	return c, nil
}

// open opens a connection, over TLS to an https URL.
func open(to *url.URL) (net.Conn, error) {
	d := &net.Dialer{Timeout: callLimit}
	if to.Scheme == "https" {
		return tls.DialWithDialer(d, "tcp", to.Host, nil)
	}
	return d.Dial("tcp", to.Host)
}

// move continues the session at another endpoint.
func (c *client) move(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	conn, err := open(u)
	if err != nil {
		return err
	}
	err = c.conn.Close()
	c.url, c.conn = u, conn
	c.in.Reset(conn)
	return err
}

// close ends the session, if there is one, and the connection.
func (c *client) close() error {
	var err error
	if c.session != "" {
		_, err = c.send(http.MethodDelete, "", "", nil)
	}
	return errors.Join(err, c.conn.Close())
}

// reopen ends the session and begins another one.
func (c *client) reopen() error {
	resp, err := c.send(http.MethodDelete, "", "", nil)
	if err != nil {
		return err
	}
	if err := wantStatus(resp, http.StatusNoContent); err != nil {
		return err
	}
	c.session = ""
	return c.initialize()
}

func (c *client) initialize() error {
	params := mcp.Object("protocolVersion", mcp.String(stateful().Name), "capabilities", mcp.Raw("{}"),
		"clientInfo", info())
	c.id++
	resp, err := c.post(mcp.MethodInitialize, "", wire.AppendRequest(nil, c.rawID(), mcp.MethodInitialize, params))
	if err != nil {
		return err
	}
	if err := wantStatus(resp, http.StatusOK); err != nil {
		return err
	}
	if c.session = resp.Header.Get(wire.HeaderSession); c.session == "" {
		return errors.New("no session")
	}
	resp, err = c.post(mcp.NoteInitialized, "", wire.AppendNotification(nil, mcp.NoteInitialized, nil))
	if err != nil {
		return err
	}
	return wantStatus(resp, http.StatusAccepted)
}

// wantStatus reads the answer to its end and checks its status.
func wantStatus(resp *http.Response, status int) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != status {
		return fmt.Errorf("status %d, want %d: %.1000s", resp.StatusCode, status, body)
	}
	return nil
}

// do makes one request. It returns the result, and the params of the progress events before
// it; both are valid until the next call.
func (c *client) do(method, name string, params mcp.Raw) (result mcp.Raw, progress []mcp.Raw, err error) {
	c.id++
	resp, err := c.post(method, name, wire.AppendRequest(nil, c.rawID(), method, params))
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, wantStatus(resp, http.StatusOK)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return c.readEvents(resp.Body)
	}
	body, err := wire.ReadAll(resp.Body, resp.ContentLength, wire.DefaultMaxResult)
	if err != nil {
		return nil, nil, err
	}
	m, err := wire.Scan(body)
	if err != nil {
		return nil, nil, err
	}
	result, err = c.result(m)
	return result, nil, err
}

// readEvents reads a stream to its end.
func (c *client) readEvents(body io.Reader) (result mcp.Raw, progress []mcp.Raw, err error) {
	events := wire.NewEventReader(body, wire.DefaultMaxResult)
	for {
		event, err := events.Next()
		if err == io.EOF {
			if result == nil {
				return nil, nil, errors.New("the stream ended without a result")
			}
			return result, progress, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if len(event.Data) == 0 {
			continue // priming
		}
		m, err := wire.Scan(bytes.Clone(event.Data))
		switch {
		case err != nil:
			return nil, nil, err
		case result != nil:
			return nil, nil, errors.New("a message came after the result")
		case m.Method == mcp.NoteProgress:
			progress = append(progress, m.Params)
		case m.Kind == wire.Response:
			if result, err = c.result(m); err != nil {
				return nil, nil, err
			}
		}
	}
}

// result checks that a response answers the last request, and returns its result.
func (c *client) result(m wire.Message) (mcp.Raw, error) {
	switch {
	case m.Kind != wire.Response || !bytes.Equal(m.ID, c.rawID()):
		return nil, fmt.Errorf("the answer has id %s, the request %d", m.ID, c.id)
	case m.Error != nil:
		return nil, fmt.Errorf("error %s", m.Error)
	}
	return m.Result, nil
}

func (c *client) rawID() mcp.Raw { return mcp.Raw(strconv.Itoa(c.id)) }

func (c *client) post(method, name string, body []byte) (*http.Response, error) {
	return c.send(http.MethodPost, method, name, body)
}

// send sends an HTTP request with the headers of the client's era.
func (c *client) send(verb, method, name string, body []byte) (*http.Response, error) {
	b := append(append(c.request[:0], verb...), ' ')
	b = append(b, c.url.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.url.Host...)
	b = append(b, "\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	header := func(key, value string) {
		b = append(append(append(append(b, key...), ": "...), value...), "\r\n"...)
	}
	switch {
	case c.stateless:
		header(wire.HeaderVersion, wire.Stateless().Name)
		header(wire.HeaderMethod, method)
		if name != "" {
			header(wire.HeaderName, name)
		}
	case c.session != "":
		header(wire.HeaderVersion, stateful().Name)
		header(wire.HeaderSession, c.session)
	}
	if c.token != "" {
		header("Authorization", "Bearer "+c.token)
	}
	header("Content-Length", strconv.Itoa(len(body)))
	b = append(append(b, "\r\n"...), body...)
	c.request = b
	if err := c.conn.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(b); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.in, nil)
}
