package cluster

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// newSeals returns a sender and a receiver.
func newSeals(t testing.TB, secret string) (sender, receiver *carried) {
	t.Helper()
	sender, err := newCarried("sender", []byte(testKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	receiver, err = newCarried("receiver", []byte(secret), nil)
	if err != nil {
		t.Fatal(err)
	}
	return sender, receiver
}

func TestCarried(t *testing.T) {
	post := func() *http.Request { return httptest.NewRequest("POST", "/mcp?x=1", strings.NewReader("body")) }
	tests := []struct {
		name   string
		secret string
		from   string
		to     string
		change func(*http.Request)
		ok     bool
	}{
		{"good", testKey, "sender", "receiver", func(*http.Request) {}, true},
		{"another key", otherKey, "sender", "receiver", func(*http.Request) {}, false},
		{"of another sender", testKey, "somebody", "receiver", func(*http.Request) {}, false},
		{"for another receiver", testKey, "sender", "somebody", func(*http.Request) {}, false},
		{"another method", testKey, "sender", "receiver", func(r *http.Request) { r.Method = "GET" }, false},
		{"another path", testKey, "sender", "receiver", func(r *http.Request) { r.RequestURI = "/admin?x=1" }, false},
		{"another query", testKey, "sender", "receiver", func(r *http.Request) { r.RequestURI = "/mcp?x=2" }, false},
		{"another length", testKey, "sender", "receiver", func(r *http.Request) { r.ContentLength++ }, false},
		{"nothing", testKey, "sender", "receiver", func(r *http.Request) { r.Header.Del(carriedHeader) }, false},
		{"two", testKey, "sender", "receiver",
			func(r *http.Request) { r.Header.Add(carriedHeader, r.Header.Get(carriedHeader)) }, false},
		{"changed", testKey, "sender", "receiver", func(r *http.Request) { r.Header[carriedHeader][0] += "A" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sender, receiver := newSeals(t, tt.secret)
			r := post()
			r.Header.Set(carriedHeader, sender.write(tt.to, r, "user:id", []byte("caller")))
			tt.change(r)
			home, caller, err := receiver.read(tt.from, r)
			if (err == nil) != tt.ok || tt.ok && (home != "user:id" || string(caller) != "caller") {
				t.Errorf("%q %q %v", home, caller, err)
			}
			if _, _, err := receiver.read(tt.from, r); err == nil {
				t.Error("it is taken twice")
			}
		})
	}
}

func TestWindow(t *testing.T) {
	tests := []struct {
		name    string
		numbers []uint64
		want    string // y for each number that is accepted
	}{
		{"in order", []uint64{1, 2, 3}, "yyy"},
		{"twice", []uint64{1, 1, 2, 1, 2}, "ynynn"},
		{"out of order", []uint64{3, 1, 2, 3, 1}, "yyynn"},
		{"no number", []uint64{0, 1, 0}, "nyn"},
		{"late", []uint64{maxLate + 5, 5, 6, 7, 6}, "ynyyn"},
		{"far ahead", []uint64{1, 1 << 60, 1, 1<<60 - 1, 1<<60 - maxLate, 1 << 60}, "yynynn"},
		{"a ring later", []uint64{1, 1 + maxLate, 1, 2, 2}, "yynyn"},
		{"the last", []uint64{1<<64 - 1, 1<<64 - 1, 1}, "ynn"},
	}
	for _, tt := range tests {
		var w window
		got := ""
		for _, n := range tt.numbers {
			if w.first(n) {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestManySenders(t *testing.T) {
	_, c := newSeals(t, testKey)
	for i := range maxSenders {
		if !c.first(strings.Repeat("x", i), 1) {
			t.Fatalf("sender %d is not heard", i)
		}
	}
	if c.first("one more", 1) {
		t.Error("there is no bound")
	}
	if !c.first("x", 2) {
		t.Error("one who is known is not heard any more")
	}
}

// FuzzCarried: read returns what was written, and no value can be read in two ways.
func FuzzCarried(f *testing.F) {
	f.Add(appendCarried(nil, 7, "user:id", []byte("caller")))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, plain []byte) {
		number, home, caller, err := parseCarried(plain)
		if err != nil {
			return
		}
		number2, home2, caller2, err := parseCarried(appendCarried(nil, number, home, caller))
		if err != nil || number2 != number || home2 != home || !bytes.Equal(caller2, caller) {
			t.Fatalf("%d %q %q, %d %q %q, %v", number, home, caller, number2, home2, caller2, err)
		}
	})
}

// FuzzCarriedHeader: only a sender with the key can make a header that is accepted.
func FuzzCarriedHeader(f *testing.F) {
	_, receiver := newSeals(f, testKey)
	f.Add("AAAA")
	f.Add(strings.Repeat("A", 80))
	f.Fuzz(func(t *testing.T, value string) {
		r := httptest.NewRequest("GET", "/mcp", nil)
		r.Header[carriedHeader] = []string{value}
		if _, _, err := receiver.read("sender", r); err == nil {
			t.Fatal("it is taken")
		}
	})
}
