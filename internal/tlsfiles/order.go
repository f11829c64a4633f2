package tlsfiles

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/acme"
)

const (
	// orderTime limits an order, and how long other replicas leave it to the one that has begun it.
	orderTime = 5 * time.Minute
	// keepTime limits what is written when an order has ended.
	keepTime = 5 * time.Second
	// lookAgain is the interval at which a replica looks for the certificate that another one orders.
	lookAgain = 5 * time.Second
	// firstPause is the pause after an order that failed; it doubles up to mostPause. An authority that limits
	// orders may ask for one up to longestPause.
	firstPause, mostPause, longestPause = time.Minute, time.Hour, 24 * time.Hour
	// mostEarly is the longest time before its end at which a certificate is replaced.
	mostEarly = 30 * 24 * time.Hour
	// keptFor is longer than any certificate is good, or an account unused. A lost account costs nothing: a new one is
	// made.
	keptFor = 400 * 24 * time.Hour
)

// Store keeps certificates and what belongs to their orders for all replicas, as expiring.Store does. Values are
// sealed there.
type Store interface {
	Put(ctx context.Context, name string, value []byte, life time.Duration) error
	Add(ctx context.Context, name string, value []byte, life time.Duration) (bool, error)
	Get(ctx context.Context, name string) ([]byte, error)
	Drop(ctx context.Context, name string) error
}

// Orders are the means by which certificates are ordered.
type Orders struct {
	// Store outlives the process.
	Store Store
	// Client reaches the directory.
	Client *http.Client
}

// orders has the certificate of one listener. Its proofs are for the authority alone, and of no use to others.
type orders struct {
	ACME
	Orders
	failures int // in a row
}

// due returns the time until a certificate has to be replaced. If there is none, it is 0.
func due(leaf *x509.Certificate) time.Duration {
	early := min(leaf.NotAfter.Sub(leaf.NotBefore)/3, mostEarly)
	return max(0, time.Until(leaf.NotAfter.Add(-early)))
}

// next returns a newer certificate than the one in use, with its key: one that a replica has kept or, if that in use
// is due, one that it orders. There is none if the text is nil; wait is the time until the next look.
func (o *orders) next(ctx context.Context, used *x509.Certificate) (text []byte, wait time.Duration, err error) {
	name := o.URL() + " " + strings.Join(o.Domains, " ")
	if text, err = o.Store.Get(ctx, "certificate "+name); err == nil {
		if kept, err := parse("", text); err == nil && kept[0].NotAfter.After(used.NotAfter) {
			return text, min(due(kept[0]), mostPause), nil
		}
	}
	if wait = due(used); wait > 0 {
		return nil, min(wait, mostPause), nil
	}
	if mine, err := o.Store.Add(ctx, "order "+name, []byte("begun"), orderTime); err != nil || !mine {
		return nil, lookAgain, err
	}
	limited, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	text, err = o.order(limited)
	after, enough := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer enough()
	if err != nil && ctx.Err() == nil {
		wait = o.pause(err)
		return nil, wait, errors.Join(err, o.Store.Put(after, "order "+name, []byte("failed"), wait))
	}
	o.failures = 0
	if err == nil {
		err = o.Store.Put(after, "certificate "+name, text, keptFor)
	}
	return text, lookAgain, errors.Join(err, o.Store.Drop(after, "order "+name))
}

// pause returns the time until the next order after one that has failed.
func (o *orders) pause(err error) time.Duration {
	pause := min(firstPause<<min(o.failures, 6), mostPause)
	o.failures++
	if answer, ok := errors.AsType[*acme.Error](err); ok {
		asked, _ := acme.RateLimit(answer)
		pause = max(pause, min(asked, longestPause))
	}
	return pause
}

// order orders a certificate (RFC 8555 §7.4), and returns its key and its chain in PEM.
func (o *orders) order(ctx context.Context) ([]byte, error) {
	client, err := o.client(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("the key of the account: %w", err)
	}
	account := &acme.Account{}
	if o.Email != "" {
		account.Contact = []string{"mailto:" + o.Email}
	}
	_, err = client.Register(ctx, account, acme.AcceptTOS)
	if err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil, fmt.Errorf("the account at the authority: %w", err)
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(o.Domains...))
	if err != nil {
		return nil, fmt.Errorf("the order: %w", err)
	}
	for _, at := range order.AuthzURLs {
		if err := o.prove(ctx, client, at); err != nil {
			return nil, err
		}
	}
	key, text, err := newKey()
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: o.Domains}, key)
	if err != nil {
		return nil, err
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return nil, fmt.Errorf("the order: %w", err)
	}
	chain, _, err := client.CreateCertFromOrder(ctx, order, request, true)
	for _, one := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one})...)
	}
	return text, err
}

// newKey makes a key, also in PEM.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// prove shows the authority that a domain is the gateway's (RFC 8555 §7.5.1).
func (o *orders) prove(ctx context.Context, client *acme.Client, at string) error {
	asked, err := client.GetAuthorization(ctx, at)
	if err != nil || asked.Status == acme.StatusValid {
		return err
	}
	of := asked.Identifier.Value
	i := slices.IndexFunc(asked.Challenges, func(c *acme.Challenge) bool { return c.Type == o.challenge() })
	if i < 0 {
		return fmt.Errorf("%s: the authority takes no proof by %s", of, o.challenge())
	}
	if err := o.Store.Put(ctx, "proof "+of, []byte(asked.Challenges[i].Token), orderTime); err != nil {
		return err
	}
	if _, err = client.Accept(ctx, asked.Challenges[i]); err == nil {
		_, err = client.WaitAuthorization(ctx, asked.URI)
	}
	return err
}

// client returns a client with the key of the account, which all replicas have. If there is none, it may make one.
func (o *orders) client(ctx context.Context, make bool) (*acme.Client, error) {
	name := "account " + o.URL()
	text, err := o.Store.Get(ctx, name)
	if err != nil && make {
		if _, text, err = newKey(); err == nil {
			if _, err = o.Store.Add(ctx, name, text, keptFor); err == nil {
				text, err = o.Store.Get(ctx, name) // another replica, or listener, may have been faster
			}
		}
	}
	block, _ := pem.Decode(text)
	if err != nil || block == nil {
		return nil, cmp.Or(err, errors.New("what is kept is no key"))
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	return &acme.Client{Key: key, DirectoryURL: o.URL(), HTTPClient: o.Client, UserAgent: "gatehouse",
		// The order is tried again later, not within five minutes.
		RetryBackoff: func(n int, _ *http.Request, _ *http.Response) time.Duration {
			return time.Duration(3-n) * time.Second
		},
	}, err
}

// proof returns the token that the authority looks for at a domain, and what makes the proof of it.
func (o *orders) proof(ctx context.Context, of string) (token string, by *acme.Client, err error) {
	kept, err := o.Store.Get(ctx, "proof "+of)
	if err == nil {
		by, err = o.client(ctx, false)
	}
	return string(kept), by, err
}

// handshake answers the authority in a handshake (RFC 8737 §3).
func (o *orders) handshake(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	token, by, err := o.proof(hello.Context(), hello.ServerName)
	if err != nil {
		return nil, fmt.Errorf("no proof is asked for: %w", err)
	}
	proof, err := by.TLSALPN01ChallengeCert(token, hello.ServerName)
	return &tls.Config{Certificates: []tls.Certificate{proof}, NextProtos: []string{acme.ALPNProto},
		MinVersion: tls.VersionTLS12}, err
}

// ServeHTTP answers the authority (RFC 8555 §8.3). There is nothing else: a token that a client has sent here is
// no secret any more, so it is not sent on to https.
func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/") {
		host, _, _ := strings.Cut(r.Host, ":")
		token, by, err := o.proof(r.Context(), host)
		if err == nil && r.URL.Path == by.HTTP01ChallengePath(token) {
			if proof, err := by.HTTP01ChallengeResponse(token); err == nil {
				_, _ = io.WriteString(w, proof)
				return
			}
		}
	}
	http.Error(w, "nothing is here but proofs for certificates: use https", http.StatusNotFound)
}
