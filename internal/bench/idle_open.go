package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// opener opens connections one after another. It reuses one connection for requests that
// end. A connection that stays open costs this process little more than a descriptor.
type opener struct {
	*opened
	control net.Conn // nil before the first request
	in      *bufio.Reader
	reader  *bufio.Reader // of the last connection that was opened
}

func (o *opener) close() {
	if o.control != nil {
		_ = o.control.Close() // every request is answered
	}
}

// dial opens a connection that stays open, and sends a request on it.
func (o *opener) dial(request string) error {
	conn, err := net.DialTimeout("tcp", o.address, callLimit)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.conns = append(o.conns, conn)
	o.mu.Unlock()
	if err := conn.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	if o.reader == nil {
		o.reader = bufio.NewReader(nil)
	}
	o.reader.Reset(conn)
	return nil
}

// line reads up to a line with this prefix, and returns the rest of that line.
func (o *opener) line(prefix string) (string, error) {
	for {
		line, err := o.reader.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("no line %q: %q %w", prefix, line, err)
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest), nil
		}
	}
}

// post makes a request and reads its whole answer.
func (o *opener) post(path, header string, body []byte) (http.Header, error) {
	if o.control == nil {
		conn, err := net.DialTimeout("tcp", o.address, callLimit)
		if err != nil {
			return nil, err
		}
		o.control, o.in = conn, bufio.NewReader(conn)
	}
	if err := o.control.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(o.control, posted(path, header, body)); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(o.in, nil)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("status %d: %.1000s", resp.StatusCode, text)
	}
	return resp.Header, err
}

const accept = "Host: localhost\r\nAccept: application/json, text/event-stream\r\n"

// posted returns the text of a POST; header consists of whole lines.
func posted(path, header string, body []byte) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\n%s%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path,
		accept, header, len(body), body)
}

func initialize(rev *wire.Revision) []byte {
	return wire.AppendRequest(nil, mcp.Int(1), mcp.MethodInitialize,
		mcp.Object("protocolVersion", mcp.String(rev.Name), "capabilities", mcp.Raw("{}"), "clientInfo", info()))
}

func initialized() []byte { return wire.AppendNotification(nil, mcp.NoteInitialized, nil) }

// newSession begins a session and returns the header line with its id.
func (o *opener) newSession() (string, error) {
	header, err := o.post("/mcp", "", initialize(stateful()))
	if err != nil {
		return "", err
	}
	id := header.Get(wire.HeaderSession)
	if id == "" {
		return "", errors.New("no session")
	}
	session := wire.HeaderSession + ": " + id + "\r\n"
	_, err = o.post("/mcp", session, initialized())
	return session, err
}

func (o *opener) session() error {
	_, err := o.newSession()
	return err
}

func (o *opener) get() error {
	session, err := o.newSession()
	if err != nil {
		return err
	}
	if err := o.dial("GET /mcp HTTP/1.1\r\n" + accept + session + "\r\n"); err != nil {
		return err
	}
	_, err = o.line(":") // the comment that begins the stream
	return err
}

func (o *opener) listen() error {
	params := mcp.Object("notifications", mcp.Object("toolsListChanged", mcp.Raw("true")), "_meta",
		mcp.Object(wire.MetaVersion, mcp.String(wire.Stateless().Name), wire.MetaClientCaps, mcp.Raw("{}")))
	header := fmt.Sprintf("%s: %s\r\n%s: %s\r\n", wire.HeaderVersion, wire.Stateless().Name, wire.HeaderMethod,
		mcp.MethodListen)
	if err := o.dial(posted("/mcp", header, wire.AppendRequest(nil, mcp.Int(1), mcp.MethodListen, params))); err != nil {
		return err
	}
	_, err := o.line("data: ")
	return err
}

func (o *opener) old() error {
	if err := o.dial("GET " + oldPath + " HTTP/1.1\r\n" + accept + "\r\n"); err != nil {
		return err
	}
	path, err := o.line("data: ")
	if err != nil {
		return err
	}
	if _, err := o.post(path, "", initialize(wire.Revisions()[0])); err != nil {
		return err
	}
	if _, err := o.line("data: "); err != nil {
		return err
	}
	_, err = o.post(path, "", initialized())
	return err
}

func (o *opener) ping() error {
	if err := o.dial(posted("/mcp", "", wire.AppendRequest(nil, mcp.Int(1), mcp.MethodPing, nil))); err != nil {
		return err
	}
	resp, err := http.ReadResponse(o.reader, nil)
	if err != nil {
		return err
	}
	_, err = io.ReadAll(resp.Body)
	return err
}
