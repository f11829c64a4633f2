package stream

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// counting is a listener that counts the writes to all of its connections.
type counting struct {
	net.Listener
	writes atomic.Int64
}

func (c *counting) Accept() (net.Conn, error) {
	inner, err := c.Listener.Accept()
	return countedConn{inner, &c.writes}, err
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestTheEndIsOneWrite: the last event goes to the connection together with the end of the
// answer, whether the answer has a length or chunks.
func TestTheEndIsOneWrite(t *testing.T) {
	for _, size := range []int{10, 3000} {
		last := strings.Repeat("x", size)
		w := newWriter(nil)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.Begin(rw, http.NewResponseController(rw), "", nil).End("1", []byte(last))
		}))
		counted := &counting{Listener: server.Listener}
		server.Listener = counted
		server.Start()
		text, err := get(server)
		server.Close()
		if err != nil || text != "id: 1\ndata: "+last+"\n\n" {
			t.Errorf("%d bytes: %q %v", size, text, err)
		}
		if n := counted.writes.Load(); n != 1 {
			t.Errorf("%d bytes: %d writes", size, n)
		}
	}
}
