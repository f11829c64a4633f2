package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	maxDocuments     = 100
	maxDocument      = 64 << 10
	maxFetches       = 4 // at a time
	fetchTimeout     = 10 * time.Second
	documentLifetime = 5 * time.Minute
)

// documents caches the client id metadata documents
// (draft-ietf-oauth-client-id-metadata-document) that were read recently.
type documents struct {
	fetch func(ctx context.Context, url string) ([]byte, error)
	known *lru.Cache[string, document]
	slots chan struct{}
}

type document struct {
	client  client
	expires time.Time
}

// client returns the client whose id is the URL of its document.
func (d *documents) client(ctx context.Context, id string) (client, error) {
	if d.fetch == nil {
		return client{}, errors.New("clients that are known by a metadata document are not accepted here: let it register")
	}
	if err := checkDocumentURL(id); err != nil {
		return client{}, fmt.Errorf("client_id: %w", err)
	}
	if known, ok := d.known.Get(id); ok && time.Now().Before(known.expires) {
		return known.client, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return client{}, ctx.Err()
	}
	body, err := d.fetch(ctx, id)
	if err != nil {
		return client{}, fmt.Errorf("its metadata document cannot be read: %w", err)
	}
	c, err := readDocument(id, body)
	if err != nil {
		return client{}, fmt.Errorf("its metadata document: %w", err)
	}
	d.known.Add(id, document{client: c, expires: time.Now().Add(documentLifetime)})
	return c, nil
}

// checkDocumentURL checks the rules of section 3 of the draft.
func checkDocumentURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURI || !printable.MatchString(raw):
		return errors.New("not a URL")
	case u.Scheme != "https" || !plainHost.MatchString(u.Host) || u.User != nil || strings.Contains(raw, "#"):
		return errors.New("want https with a host, without user and fragment")
	case u.Path == "" || u.Path == "/":
		return errors.New("want a path")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return errors.New("want a path without dot segments")
		}
	}
	return nil
}

func readDocument(id string, body []byte) (client, error) {
	if len(body) > maxDocument {
		return client{}, fmt.Errorf("larger than %d bytes", maxDocument)
	}
	var m clientMetadata
	if err := json.Unmarshal(body, &m); err != nil {
		return client{}, errors.New("not a JSON object of client metadata")
	}
	if m.ClientID != id {
		return client{}, errors.New("client_id is not its URL")
	}
	if m.Name == "" {
		return client{}, errors.New("client_name is missing")
	}
	if m.AuthMethod != "" && m.AuthMethod != "none" {
		return client{}, errors.New("token_endpoint_auth_method: only none can be had here")
	}
	c, err := m.client()
	c.id = id
	return c, err
}
