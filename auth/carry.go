package auth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// errCarried does not show the text, which contains a token.
var errCarried = errors.New("auth: another replica has sent a caller that cannot be read")

// fixedFields is the number of fields before the groups and scopes.
const fixedFields = 8

// fromPrefix begins the field with the address and the agent of the request.
const fromPrefix = "from "

// WriteCaller encodes a caller for another replica of this gateway, which continues the
// caller's request. It contains the token, so the sender has to seal it.
//
// The text is a list of fields, each after its length: issuer, subject, client, view, token,
// claims, the expiry (time.Time.MarshalBinary), the number of groups, the groups, the scopes, and
// where the request came from. A gateway that does not know the last one takes it for a scope,
// which cannot be asked for or granted, since it has spaces.
func WriteCaller(c mcp.Caller) ([]byte, error) {
	expires, err := c.Expires.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("auth: writing a caller: %w", err)
	}
	text := make([]byte, 0, 256+len(c.Token)+len(c.Claims))
	fixed := [fixedFields]string{c.Issuer, c.Subject, c.ClientID, c.View, string(c.Token), string(c.Claims),
		string(expires), strconv.Itoa(len(c.Groups))}
	var from []string
	if c.From != (mcp.Origin{}) {
		from = []string{fromPrefix + c.From.Address + " " + c.From.Agent}
	}
	for _, fields := range [][]string{fixed[:], c.Groups, c.Scopes, from} {
		for _, field := range fields {
			text = append(binary.AppendUvarint(text, uint64(len(field))), field...)
		}
	}
	return text, nil
}

// ReadCaller decodes the output of WriteCaller.
func ReadCaller(text []byte) (mcp.Caller, error) {
	fields := make([]string, 0, 2*fixedFields)
	for all, at := string(text), 0; at < len(text); {
		size, n := binary.Uvarint(text[at:])
		if n <= 0 || size > uint64(len(text)-at-n) {
			return mcp.Caller{}, errCarried
		}
		at += n + int(size)
		fields = append(fields, all[at-int(size):at])
	}
	if len(fields) < fixedFields {
		return mcp.Caller{}, errCarried
	}
	rest, origin := fields[fixedFields:], mcp.Origin{}
	if n := len(rest); n > 0 {
		if from, ok := strings.CutPrefix(rest[n-1], fromPrefix); ok {
			origin.Address, origin.Agent, _ = strings.Cut(from, " ")
			rest = rest[:n-1]
		}
	}
	groups, err := strconv.Atoi(fields[7])
	if err != nil || groups < 0 || groups > len(rest) {
		return mcp.Caller{}, errCarried
	}
	c := mcp.Caller{From: origin, Issuer: fields[0], Subject: fields[1], ClientID: fields[2], View: fields[3],
		Token: mcp.Secret(fields[4]), Groups: rest[:groups:groups], Scopes: rest[groups:]}
	if fields[5] != "" {
		c.Claims = mcp.Raw(fields[5])
	}
	if c.Expires.UnmarshalBinary([]byte(fields[6])) != nil {
		return mcp.Caller{}, errCarried
	}
	return mcp.NewCaller(c), nil
}
