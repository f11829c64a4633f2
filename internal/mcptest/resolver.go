package mcptest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
)

// Resolver returns a resolver for which every name has the address that answer returns. It
// sends no queries.
func Resolver(answer func() netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerDNS(server, answer()) // ends when the resolver closes its end
		return client, nil
	}}
}

// answerDNS answers one question in the TCP format: with the address if it has the
// requested type, else with none (RFC 1035 §4, RFC 3596 §2).
func answerDNS(conn net.Conn, addr netip.Addr) {
	defer conn.Close()
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return
	}
	end := 12 + bytes.IndexByte(query[12:], 0) + 5 // name, type, class
	asked, kind, answers := binary.BigEndian.Uint16(query[end-4:]), uint16(1), byte(0)
	if addr.Is6() {
		kind = 28
	}
	if asked == kind {
		answers = 1
	}
	out := append([]byte{}, query[:2]...)
	out = append(out, 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0)
	out = append(out, query[12:end]...)
	if answers == 1 {
		data := addr.AsSlice()
		out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 1, 0, byte(len(data)))
		out = append(out, data...)
	}
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
}
