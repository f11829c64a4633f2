package auth

import (
	"encoding/base64"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	maxTokenBytes = 16 << 10
	maxKeyIDBytes = 512
)

// form is the syntactic form of a token.
type form uint8

const (
	formBad    form = iota
	formJWT         // three parts in base64url: the compact serialisation of RFC 7515
	formOpaque      // a b64token (RFC 6750 §2.1) that is nothing of JOSE
)

// formOf looks at the characters of a token before it is parsed. Parsers accept more (white
// space, padding, the JSON serialisation), and one token would have many spellings. A token
// that looks like JOSE but is not a compact JWS is invalid, not opaque: the issuer for opaque
// tokens must not see it.
func formOf(token string) form {
	if token == "" {
		return formBad
	}
	dots, base64url := 0, true
	body := strings.TrimRight(token, "=")
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		case c == '.':
			dots++
			if i == 0 || i == len(body)-1 || body[i-1] == '.' {
				base64url = false
			}
		case c == '~', c == '+', c == '/':
			base64url = false
		default:
			return formBad
		}
	}
	switch {
	case dots == 2 && base64url && len(body) == len(token):
		return formJWT
	case dots >= 2 || strings.HasPrefix(token, "eyJ") || body == "":
		return formBad
	}
	return formOpaque
}

// jws is a compact JWS that was parsed but not verified.
type jws struct {
	alg, kid, typ string
	hasKid        bool
	claims        mcp.Raw
}

// splitJWT parses a token of formJWT.
func splitJWT(token string, exact []string) (jws, *refusal) {
	head, rest, _ := strings.Cut(token, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	strict := base64.RawURLEncoding.Strict()
	headText, err := strict.DecodeString(head)
	if err != nil {
		return jws{}, badToken("the token's header is not base64url", err)
	}
	if _, err := strict.DecodeString(signature); err != nil {
		return jws{}, badToken("the token's signature is not base64url", err)
	}
	payloadText, err := strict.DecodeString(payload)
	if err != nil {
		return jws{}, badToken("the token's claims are not base64url", err)
	}
	header, err := parseObject(headText, "alg", "kid", "typ")
	if err != nil {
		return jws{}, badToken("the token's header cannot be read", err)
	}
	j, ref := readHeader(header)
	if ref != nil {
		return jws{}, ref
	}
	if j.claims, err = parseObject(payloadText, exact...); err != nil {
		return jws{}, badToken("the token's claims cannot be read", err)
	}
	return j, nil
}

// readHeader parses a JOSE header. It refuses parameters that would change what is verified
// or with which key: keys come from the issuer's key set only.
func readHeader(header mcp.Raw) (j jws, ref *refusal) {
	header.Members(func(name []byte, value mcp.Raw) bool {
		ok := true
		switch string(name) {
		case "alg":
			j.alg, ok = plainText(value)
		case "kid":
			j.kid, ok = plainText(value)
			j.hasKid = true
			ok = ok && j.kid != "" && len(j.kid) <= maxKeyIDBytes
		case "typ":
			j.typ, ok = plainText(value)
		case "crit", "b64", "zip", "jku", "jwk", "x5u", "x5c", "enc", "epk":
			ref = badToken("the token's header has a parameter that is not accepted", nil)
		}
		if !ok {
			ref = badToken("the token's header cannot be read", nil)
		}
		return ref == nil
	})
	return j, ref
}
