package doorway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// header is one of the PROXY protocol for a client.
func header(t *testing.T, version byte, client string) string {
	t.Helper()
	from, err := net.ResolveTCPAddr("tcp", client)
	if err != nil {
		t.Fatal(err)
	}
	to := &net.TCPAddr{IP: net.ParseIP("203.0.113.1"), Port: 443}
	if from.IP.To4() == nil {
		to.IP = net.ParseIP("2001:db8::ffff")
	}
	text, err := proxyproto.HeaderProxyFromAddrs(version, from, to).Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	plainRequest = "POST /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.99\r\nContent-Length: 2\r\n\r\nhi"
	otherRequest = "GET /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.99\r\n\r\n"
)

// answerTo sends something and returns the answer and its body.
func answerTo(t *testing.T, conn net.Conn, in *bufio.Reader, what string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(conn, what); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// TestProxyProtocol: a proxy says with the PROXY protocol of which client a connection is, has to say
// so, and nobody else can.
func TestProxyProtocol(t *testing.T) {
	const local = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	here, elsewhere := []string{"127.0.0.1"}, []string{"10.0.0.1"}
	for name, tt := range map[string]struct {
		proxies []string
		header  string
		status  int
		seen    string // "" for that of the proxy
	}{
		"version 1":       {here, header(t, 1, "192.0.2.7:5000"), 200, "192.0.2.7 192.0.2.7:5000"},
		"version 2":       {here, header(t, 2, "192.0.2.7:5000"), 200, "192.0.2.7 192.0.2.7:5000"},
		"version 1, IPv6": {here, header(t, 1, "[2001:db8::7]:5000"), 200, "2001:db8::7 [2001:db8::7]:5000"},
		"version 2, IPv6": {here, header(t, 2, "[2001:db8::7]:5000"), 200, "2001:db8::7 [2001:db8::7]:5000"},
		"from a further proxy": {append(elsewhere, here...), header(t, 2, "10.0.0.1:5000"), 200,
			"192.0.2.99 10.0.0.1:5000"},
		"version 1, unknown":       {here, "PROXY UNKNOWN\r\n", 200, ""},
		"version 2, of the proxy":  {here, local, 200, ""},
		"none":                     {here, "", 400, ""},
		"no address":               {here, "PROXY TCP4 192.0.2 203.0.113.1 1 2\r\n", 0, ""},
		"not from a proxy":         {elsewhere, header(t, 1, "192.0.2.7:5000"), 400, ""},
		"version 2, from no proxy": {elsewhere, header(t, 2, "192.0.2.7:5000"), 400, ""},
		"none, from no proxy":      {elsewhere, "", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, listen(t), Config{Proxies: tt.proxies, ProxyProtocol: true})
			conn, in := connect(t, s.listener)
			if tt.status == 0 {
				io.WriteString(conn, tt.header+plainRequest)
				if text, _ := io.ReadAll(in); len(text) > 0 {
					t.Errorf("an answer: %.100q", text)
				}
				return
			}
			answer, body := answerTo(t, conn, in, tt.header+plainRequest)
			if answer.StatusCode != tt.status {
				t.Fatalf("%s %.200q", answer.Status, body)
			}
			switch want := tt.seen; {
			case tt.status != 200:
				if name == "none" && !strings.Contains(body, "connections.proxy_protocol") {
					t.Errorf("%q", body)
				}
				return
			case want == "":
				want = "127.0.0.1 " + conn.LocalAddr().String()
				fallthrough
			default:
				if got := answer.Header.Get("Seen"); got != want {
					t.Errorf("seen: %s, want %s", got, want)
				}
			}
			if answer, _ = answerTo(t, conn, in, plainRequest); answer.StatusCode != 200 {
				t.Errorf("the second request: %s", answer.Status)
			}
		})
	}
}

// TestProxyProtocolShares: a client has its own share of the connections behind a proxy, and one that
// says nothing keeps nobody waiting.
func TestProxyProtocolShares(t *testing.T) {
	s := serve(t, listen(t), Config{PerAddress: 2, Proxies: []string{"127.0.0.1"}, ProxyProtocol: true})
	connect(t, s.listener) // says nothing
	for i := range 2 {
		conn, in := connect(t, s.listener)
		if answer, _ := answerTo(t, conn, in, header(t, 2, "192.0.2.7:5000")+plainRequest); answer.StatusCode != 200 {
			t.Fatalf("connection %d: %s", i, answer.Status)
		}
	}
	conn, in := connect(t, s.listener)
	io.WriteString(conn, header(t, 2, "192.0.2.7:5000")+plainRequest)
	if text, _ := io.ReadAll(in); len(text) > 0 || value(t, s.metrics.refused) != 1 {
		t.Errorf("a third connection of a client is answered: %.100q", text)
	}
	conn, in = connect(t, s.listener)
	if answer, _ := answerTo(t, conn, in, header(t, 2, "192.0.2.8:5000")+plainRequest); answer.StatusCode != 200 {
		t.Errorf("another client: %s", answer.Status)
	}
}

func TestProxyProtocolNeedsProxies(t *testing.T) {
	if err := (Config{ProxyProtocol: true}).Validate(); err == nil || !strings.Contains(err.Error(), "proxy_protocol") {
		t.Errorf("error %v", err)
	}
}
