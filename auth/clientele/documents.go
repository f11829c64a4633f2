package clientele

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// How long documents are kept. HTTP caching headers hold within the bounds.
const (
	leastFresh   = time.Minute
	usualFresh   = 15 * time.Minute
	mostFresh    = 24 * time.Hour
	mostStale    = 24 * time.Hour // beyond that, while the document cannot be read
	failureHolds = 30 * time.Second
)

// MaxDocuments bounds the documents that are kept where there is no Redis. Those who ask for them have
// shares: see expiring.Store.PutOf.
const MaxDocuments = 2_000

// Bounds of the fetches, in all and for one address: any stranger can cause one for any client_id.
const (
	maxFailures     = 500
	maxAtOnce       = 64
	fetchTime       = 5 * time.Second
	fetchesInAll    = 200
	fetchEvery      = 50 * time.Millisecond
	fetchesOfOne    = 20
	fetchEveryOfOne = time.Second
)

// documents fetches documents about clients and keeps them, for all replicas. A replica never makes a
// fetch twice at the same time, and an address pays for those that it causes (pace). A document that was
// good is used for a day longer if it cannot be read.
type documents struct {
	fetch  Fetcher
	log    *slog.Logger
	kept   *expiring.Store
	pace   *pace
	slots  chan struct{}
	group  singleflight.Group
	failed *lru.Cache[string, failure]
}

// document is one that was good.
type document struct {
	Client Client    `json:"client"`
	Fresh  time.Time `json:"fresh"` // until when it is not asked for again
}

type failure struct {
	err   *RefusedError
	until time.Time
}

func newDocuments(deps Deps) *documents {
	return &documents{
		fetch: deps.Fetch, log: deps.Log, kept: deps.Documents, slots: make(chan struct{}, maxAtOnce),
		pace:   newPace(deps.Shared, fetchesInAll, fetchEvery, fetchesOfOne, fetchEveryOfOne),
		failed: newLRU[string, failure](maxFailures),
	}
}

func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // the size is a constant above 0
	}
	return cache
}

// get returns the client with its document at this URL.
func (d *documents) get(ctx context.Context, id string) (Client, error) {
	var doc document
	text, err := d.kept.Get(ctx, id)
	good := err == nil && json.Unmarshal(text, &doc) == nil
	if good && time.Now().Before(doc.Fresh) {
		return doc.Client, nil
	}
	c, refused := d.renew(ctx, id, good)
	switch {
	case refused == nil:
		return c, nil
	case good && refused.Again:
		return doc.Client, nil
	}
	return Client{}, refused
}

// renew fetches a document, unless that has just failed or too many were asked for. A failure says nothing
// about other documents of the host: any stranger can cause failures there.
func (d *documents) renew(ctx context.Context, id string, known bool) (Client, *RefusedError) {
	if f, has := d.failed.Get(id); has && time.Now().Before(f.until) {
		return Client{}, f.err
	}
	by := d.pace.by(ctx)
	if !d.pace.allows(by) {
		return Client{}, tooMany("The gateway has been asked for too many clients.")
	}
	// Others wait for the same answer, so it outlives the request; fetchTime bounds it.
	found, err, _ := d.group.Do(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
		defer cancel()
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		case <-ctx.Done():
			return nil, tooMany("The gateway has to fetch too many documents of clients.")
		}
		c, fresh, refused := d.ask(ctx, id)
		if refused != nil {
			d.log.Info("the document of a client cannot be used", "client", id, "error", refused.Text)
			d.failed.Add(id, failure{err: refused, until: time.Now().Add(failureHolds)})
			if !refused.Again {
				d.kept.Drop(ctx, id) // in vain without Redis, and then it is not found either
			}
			return nil, refused
		}
		d.keep(ctx, by, id, document{c, time.Now().Add(fresh)}, known)
		return c, nil
	})
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return Client{}, refused
	}
	return found.(Client), nil
}

func tooMany(why string) *RefusedError {
	return &RefusedError{Text: why + " It continues in a while.", Again: true}
}

// keep stores a document, in the share of the address that asked for it first.
func (d *documents) keep(ctx context.Context, by netip.Addr, id string, doc document, known bool) {
	text, err := json.Marshal(doc)
	life := time.Until(doc.Fresh) + mostStale
	switch {
	case err != nil:
	case known || !by.IsValid():
		err = d.kept.Put(ctx, id, text, life)
	default:
		err = d.kept.PutOf(ctx, by.String(), id, text, life)
	}
	if err != nil {
		d.log.Debug("the document of a client is not kept", "client", id, "error", err)
	}
}

// ask makes the request, and returns how long its answer is fresh.
func (d *documents) ask(ctx context.Context, id string) (c Client, fresh time.Duration, failed *RefusedError) {
	cannot := func(again bool, format string, args ...any) *RefusedError {
		text := fmt.Sprintf("The gateway cannot use what is at %s: it ", id) + fmt.Sprintf(format, args...) + "."
		return &RefusedError{Text: text, Again: again}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return c, 0, cannot(false, "has no URL")
	}
	req.Header.Set("Accept", "application/json")
	answer, err := d.fetch.Do(req)
	switch {
	case errors.Is(err, safehttp.ErrForbidden):
		return c, 0, cannot(false, "is at an address that is not public")
	case errors.Is(err, safehttp.ErrRedirect):
		return c, 0, cannot(false, "is a redirect")
	case errors.Is(err, safehttp.ErrTooLarge):
		return c, 0, cannot(false, "is longer than %d bytes", maxDocument)
	case err != nil:
		return c, 0, cannot(true, "does not answer")
	case answer.Status != http.StatusOK:
		return c, 0, cannot(mayPass(answer.Status), "answers with HTTP %d", answer.Status)
	case !isJSON(answer.Header.Get("Content-Type")):
		return c, 0, cannot(false, "is not JSON")
	}
	if c, err = parseDocument(id, answer.Body); err != nil {
		return c, 0, cannot(false, "%v", err)
	}
	return c, freshness(answer.Header), nil
}

// mayPass reports whether the failure behind a status may pass, unlike that of a missing document.
func mayPass(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// public makes requests to public addresses. Documents are kept, so connections are not.
type public struct{ route egress.Config }

// Do makes a request.
func (p public) Do(r *http.Request) (*safehttp.Response, error) {
	c, err := safehttp.New(safehttp.Options{Timeout: fetchTime, MaxBytes: maxDocument, Route: p.route})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(r)
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// freshness is how long an answer is good, by its Cache-Control (RFC 9111 §5.2.2) within our bounds.
func freshness(h http.Header) time.Duration {
	fresh := usualFresh
	for part := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "no-store", "no-cache":
			return leastFresh
		case "max-age":
			if s, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				fresh = time.Duration(s) * time.Second
			}
		}
	}
	return min(max(fresh, leastFresh), mostFresh)
}
