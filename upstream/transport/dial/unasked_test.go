package dial

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestUnaskedAnswer: what a server says unasked on a connection that one upstream keeps answers neither
// the next request there nor one of another upstream at the same address.
func TestUnaskedAnswer(t *testing.T) {
	const good, evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood",
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for client, standard := range map[string]bool{"own": false, "standard": true} {
		t.Run(client, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			say, said, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}, 10)
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					serving.Go(func() {
						defer conn.Close()
						in := bufio.NewReader(conn)
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						io.Copy(io.Discard, r.Body)
						io.WriteString(conn, good)
						<-say
						io.WriteString(conn, evil)
						said <- struct{}{}
						if r, err := http.ReadRequest(in); err == nil {
							t.Errorf("a second request came on the connection: %s", r.URL)
						}
						ended <- struct{}{}
					})
				}
			})
			url := "http://" + listener.Addr().String() + "/mcp"
			one := New(Config{URL: url, Standard: standard}, NewMetrics(nil))
			other := New(Config{URL: url, Standard: standard}, NewMetrics(nil))
			ask := func(by *Transport) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := by.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); string(body) != "good" || err != nil {
					t.Errorf("the answer is %q, error %v", body, err)
				}
			}
			speak := func() { // and has been heard where the client listens
				say <- struct{}{}
				<-said
				if standard {
					<-ended
				}
			}
			ask(one)
			speak()
			ask(other)
			ask(one)
			speak()
			speak()
			one.CloseIdleConnections()
			other.CloseIdleConnections()
			listener.Close()
			serving.Wait()
		})
	}
}
