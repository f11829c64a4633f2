package cluster

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestLeaseSeal(t *testing.T) {
	name, other := "abcdefghij23", "abcdefghij24"
	ours, err := newLeaseSeal([]byte(testKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := lease{Address: "10.0.0.1:8082", Digest: bytes.Repeat([]byte{7}, 32), Revision: "r", Leaving: true}
	value, err := ours.write(name, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ours.read(name, value); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ours.read(other, value); err == nil {
		t.Error("another replica's lease is taken")
	}
	theirs, err := newLeaseSeal([]byte(otherKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.read(name, value); err == nil {
		t.Error("a lease sealed with another key is taken")
	}
	next, err := newLeaseSeal([]byte(otherKey), [][]byte{[]byte(testKey)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.read(name, value); err != nil {
		t.Errorf("with the previous key: %v", err)
	}
	for _, name := range []string{"", "ABCDEFGHIJ23", "abcdefghij2", "abcdefghij23/", "../../../../"} {
		value, err := ours.write(name, want)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.read(name, value); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestParseLease(t *testing.T) {
	digest := `"digest":"` + strings.Repeat("A", 43) + `="`
	tests := []struct {
		name, text string
		ok         bool
	}{
		{"good", `{"address":"10.0.0.1:8082",` + digest + `}`, true},
		{"of a newer release", `{"address":"10.0.0.1:8082",` + digest + `,"zone":"a"}`, true},
		{"no JSON", `x`, false},
		{"no address", `{` + digest + `}`, false},
		{"no host", `{"address":":8082",` + digest + `}`, false},
		{"any host", `{"address":"0.0.0.0:8082",` + digest + `}`, false},
		{"no port", `{"address":"10.0.0.1:0",` + digest + `}`, false},
		{"no digest", `{"address":"10.0.0.1:8082"}`, false},
		{"a short digest", `{"address":"10.0.0.1:8082","digest":"AAAA"}`, false},
	}
	for _, tt := range tests {
		if _, err := parseLease([]byte(tt.text)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// FuzzLease: a lease that was read has an address to connect to, and is written as it was
// read.
func FuzzLease(f *testing.F) {
	f.Add([]byte(`{"address":"10.0.0.1:8082","digest":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","revision":"r","leaving":true}`))
	f.Add([]byte(`{"address":"[::1]:1","digest":[]}`))
	seals, err := newLeaseSeal([]byte(testKey), nil)
	if err != nil {
		f.Fatal(err)
	}
	const name = "abcdefghij23"
	f.Fuzz(func(t *testing.T, plain []byte) {
		if _, err := seals.read(name, string(plain)); err == nil {
			t.Fatal("nobody sealed this")
		}
		got, err := parseLease(plain)
		if err != nil {
			return
		}
		if host, port, err := splitAddress(got.Address); err != nil || host == "" || port == 0 || len(got.Digest) != 32 {
			t.Fatalf("%+v", got)
		}
		value, err := seals.write(name, got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := seals.read(name, value); len(value) <= maxLease && (err != nil || !reflect.DeepEqual(again, got)) {
			t.Fatalf("%+v, %+v, %v", got, again, err)
		}
	})
}
