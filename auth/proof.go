package auth

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	proofTyp      = "dpop+jwt"
	maxProofBytes = 8 << 10
	maxProofID    = 256 // bytes of a jti
	// proofLife is how old a proof may be, apart from the leeway: the client makes one for each
	// request.
	proofLife = time.Minute
)

// MaxProofs bounds the used proofs that are known in memory. In Redis they only have their end.
const MaxProofs = 200_000

// proofs check that the sender of a token has the key that it is bound to (DPoP, RFC 9449).
type proofs struct {
	mode   string
	origin string // of the endpoints, as clients know them
	leeway time.Duration
	used   *expiring.Store // proofs that have been used
}

func newProofs(cfg Config, publicURL string, used *expiring.Store) *proofs {
	p := &proofs{mode: cfg.DPoP, leeway: *cfg.Leeway, used: used}
	if u, err := url.Parse(publicURL); err == nil {
		p.origin = u.Scheme + "://" + u.Host
	}
	if used == nil && p.on() {
		p.used = expiring.New(expiring.Base{}, nil, "dpop", MaxProofs)
	}
	return p
}

func (p *proofs) on() bool { return p.mode == DPoPAccepted || p.mode == DPoPRequired }

// check refuses a token that is not sent as required: one that is bound to a key with a proof of that key,
// in the scheme DPoP, and any other one in the scheme Bearer. bound is the key's thumbprint, "" for a token
// that is bound to none. Of the proofs of one user a share is known in memory, so that no user displaces
// those of others.
func (p *proofs) check(r *http.Request, token, bound, user string, proven bool) *refusal {
	switch {
	case bound == "" && proven:
		return badToken("the token is bound to no key of its client: send it as Authorization: Bearer", nil)
	case bound == "" && p.mode == DPoPRequired:
		return badToken("the token is bound to no key of its client, as this gateway demands (DPoP)", nil)
	case bound == "":
		return nil
	case !proven:
		return badToken("the token is bound to a key of its client: send it as Authorization: DPoP, with a proof", nil)
	}
	lines := r.Header["Dpop"]
	if len(lines) != 1 {
		return badProof("there has to be one header DPoP", nil)
	}
	shown, err := parseProof(lines[0])
	if err != nil {
		return badProof("the proof in the header DPoP is not one", err)
	}
	now := time.Now()
	sum := sha256.Sum256([]byte(token))
	switch {
	case shown.thumbprint != bound:
		return badProof("the proof is of another key than the token's", nil)
	case shown.method != r.Method:
		return badProof("the proof is for another method", fmt.Errorf("htm is %.40q", shown.method))
	case !sameURL(shown.url, p.origin+r.URL.EscapedPath()):
		return badProof("the proof is for another URL",
			fmt.Errorf("htu is %.200q, want %q", shown.url, p.origin+r.URL.EscapedPath()))
	case shown.tokenHash != base64.RawURLEncoding.EncodeToString(sum[:]):
		return badProof("the proof is for another token", nil)
	case shown.made.After(now.Add(p.leeway)):
		return badProof("the proof was made in the future", nil)
	case !now.Before(shown.made.Add(proofLife + p.leeway)):
		return badProof("the proof is too old: each request needs a new one", nil)
	}
	// Last, so that only who has the key makes the gateway keep something. It is kept for longer than
	// this clock wants, since that of another replica may be slow.
	first, err := p.used.AddOf(r.Context(), user, bound+" "+shown.id, []byte{1},
		shown.made.Add(proofLife+2*p.leeway).Sub(now)+time.Second)
	switch {
	case err != nil:
		return noJudgement("proofs cannot be checked now: try again", retryMin, err)
	case !first:
		return badProof("the proof was used already: each request needs a new one", nil)
	}
	return nil
}

// proof is the content of a proof after its signature was checked.
type proof struct {
	thumbprint  string // of its key (RFC 7638)
	id          string
	method, url string
	tokenHash   string
	made        time.Time
}

// parseProof reads a proof (RFC 9449 §4.2) and checks that the key in it has signed it.
func parseProof(text string) (proof, error) {
	if len(text) > maxProofBytes || formOf(text) != formJWT {
		return proof{}, errors.New("it is not a compact JWT")
	}
	parts := strings.Split(text, ".")
	headText, err := base64.RawURLEncoding.Strict().DecodeString(parts[0])
	if err != nil {
		return proof{}, err
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(parts[2]); err != nil {
		return proof{}, err
	}
	header, err := parseObject(headText, "alg", "typ", "jwk")
	if err != nil {
		return proof{}, err
	}
	k, alg, err := proofKey(header)
	if err != nil {
		return proof{}, err
	}
	payload, err := signedBy{[]key{k}, alg}.VerifySignature(context.Background(), text)
	if err != nil {
		return proof{}, err
	}
	claims, err := parseObject(payload, "jti", "htm", "htu", "iat", "ath")
	if err != nil {
		return proof{}, err
	}
	sum, err := (&jose.JSONWebKey{Key: k.public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return proof{}, err
	}
	p := proof{thumbprint: base64.RawURLEncoding.EncodeToString(sum)}
	for name, to := range map[string]*string{"jti": &p.id, "htm": &p.method, "htu": &p.url, "ath": &p.tokenHash} {
		value, ok := member(claims, name)
		if !ok || value == "" {
			return proof{}, fmt.Errorf("it has no %s", name)
		}
		*to = value
	}
	made, has, ok := date(claims, "iat")
	if !has || !ok || len(p.id) > maxProofID {
		return proof{}, errors.New("it has no iat, or a jti that is too long")
	}
	p.made = made
	return p, nil
}

// proofKey returns the key in the header of a proof, and the algorithm.
func proofKey(header mcp.Raw) (k key, alg string, err error) {
	header.Members(func(name []byte, _ mcp.Raw) bool {
		if slices.Contains([]string{"crit", "b64", "zip", "jku", "x5u", "x5c", "enc", "epk"}, string(name)) {
			err = fmt.Errorf("its header has %s", name)
		}
		return err == nil
	})
	if err != nil {
		return key{}, "", err
	}
	if typ, _ := member(header, "typ"); normalTyp(typ) != proofTyp {
		return key{}, "", fmt.Errorf("its typ is not %s", proofTyp)
	}
	alg, _ = member(header, "alg")
	jwk, _ := header.Member("jwk")
	if k, err = parseKey(jwk); err != nil {
		return key{}, "", err
	}
	if !slices.Contains(k.fits, alg) || k.alg != "" && k.alg != alg {
		return key{}, "", errors.New("its alg does not fit its key")
	}
	return k, alg, nil
}

// sameURL compares the URL in a proof with that of a request. Both are normalized, and query and
// fragment are left out (RFC 9449 §4.3, RFC 3986 §6.2.2 and §6.2.3).
func sameURL(said, want string) bool {
	a, err := url.Parse(said)
	b, err2 := url.Parse(want)
	if err != nil || err2 != nil || a.User != nil || a.Opaque != "" {
		return false
	}
	return strings.EqualFold(a.Scheme, b.Scheme) && hostOf(a) == hostOf(b) && pathOf(a) == pathOf(b)
}

// hostOf returns host and port in lower case.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

func pathOf(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}
