package clientele

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// How long documents are kept. HTTP caching headers hold within the bounds.
const (
	leastFresh   = time.Minute
	usualFresh   = 15 * time.Minute
	mostFresh    = 24 * time.Hour
	mostStale    = 24 * time.Hour // beyond that, while the document cannot be read
	failureHolds = 30 * time.Second
	firstPause   = 5 * time.Second // of a host that does not answer; doubles each time
	longestPause = 5 * time.Minute
)

// How much is kept and asked for.
const (
	maxDocuments = 500
	maxFailures  = 500
	maxHosts     = 200
	maxAtOnce    = 8
	fetchTime    = 5 * time.Second
	// newAtHost and newEvery bound requests to one host for documents that were never seen there:
	// anybody can ask for any client_id.
	newAtHost = 20
	newEvery  = 3 * time.Second
)

// documents fetches documents about clients and keeps them. A fetch is never made twice at the same
// time. A document that was good is used for a day longer while its host is out of order.
type documents struct {
	fetch Fetcher
	log   *slog.Logger
	slots chan struct{}
	group singleflight.Group

	mu     sync.Mutex // guards the fields below and hosts; never held over I/O
	known  *lru.Cache[string, document]
	failed *lru.Cache[string, failure]
	hosts  *lru.Cache[string, *host]
}

type document struct {
	client       Client
	fresh, stale time.Time // how long it is good, and good enough
}

type failure struct {
	err   *RefusedError
	until time.Time
}

// host is one that has documents.
type host struct {
	paused   time.Time // no request until then
	failures int       // one after the other
	pace     *rate.Limiter
}

func newDocuments(fetch Fetcher, log *slog.Logger) *documents {
	d := &documents{fetch: fetch, log: log, slots: make(chan struct{}, maxAtOnce)}
	d.known, d.failed, d.hosts = newLRU[document](maxDocuments), newLRU[failure](maxFailures), newLRU[*host](maxHosts)
	return d
}

func newLRU[V any](size int) *lru.Cache[string, V] {
	cache, err := lru.New[string, V](size)
	if err != nil {
		panic(err) // the size is a constant above 0
	}
	return cache
}

// get returns the client whose document is at this URL.
func (d *documents) get(ctx context.Context, id string) (Client, error) {
	if doc, known := d.known.Get(id); known && time.Now().Before(doc.fresh) {
		return doc.client, nil
	}
	// Others wait for the same answer, so it outlives the request; fetchTime bounds it.
	client, err, _ := d.group.Do(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
		defer cancel()
		return d.renew(ctx, id)
	})
	if err != nil {
		return Client{}, err
	}
	return client.(Client), nil
}

// renew fetches a document, unless it has just failed or its host needs a pause.
func (d *documents) renew(ctx context.Context, id string) (Client, error) {
	doc, known := d.known.Get(id)
	now := time.Now()
	if known && now.Before(doc.fresh) {
		return doc.client, nil // the fetch before this one got it
	}
	good := known && now.Before(doc.stale)
	name := hostOf(id)
	if err := d.mayAsk(id, name, known, now); err != nil {
		if err.Again && good {
			return doc.client, nil
		}
		return Client{}, err
	}
	client, fresh, failed := d.ask(ctx, id)
	now = time.Now()
	if failed != nil {
		d.log.Info("the document of a client cannot be used", "client", id, "error", failed.Text)
		d.note(id, name, failed, now)
		if failed.Again && good {
			return doc.client, nil
		}
		return Client{}, failed.RefusedError
	}
	d.failed.Remove(id)
	d.known.Add(id, document{client: client, fresh: now.Add(fresh), stale: now.Add(fresh + mostStale)})
	d.mu.Lock()
	defer d.mu.Unlock()
	if h, has := d.hosts.Get(name); has {
		h.failures, h.paused = 0, time.Time{}
	}
	return client, nil
}

// mayAsk returns why a document is not asked for now, nil if it is.
func (d *documents) mayAsk(id, name string, known bool, now time.Time) *RefusedError {
	if f, has := d.failed.Get(id); has && now.Before(f.until) {
		return f.err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h, has := d.hosts.Get(name)
	if !has {
		h = &host{pace: rate.NewLimiter(rate.Every(newEvery), newAtHost)}
		d.hosts.Add(name, h)
	}
	switch {
	case now.Before(h.paused):
		return &RefusedError{Text: name + " has not answered. The gateway asks it again in a while.", Again: true}
	case !known && !h.pace.AllowN(now, 1):
		return &RefusedError{Text: "The gateway has been asked for too many clients of " + name + ". It continues in a while.", Again: true}
	}
	return nil
}

// note remembers a failure: of the document, or of its host.
func (d *documents) note(id, name string, f *notRead, now time.Time) {
	if !f.host {
		d.failed.Add(id, failure{err: f.RefusedError, until: now.Add(failureHolds)})
		if !f.Again {
			d.known.Remove(id)
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h, has := d.hosts.Get(name); has {
		h.paused = now.Add(min(firstPause<<min(h.failures, 10), longestPause))
		h.failures++
	}
}

// notRead is why a document was not read. host says that it is the same for all documents there: one
// document that fails, for which anybody can ask, must not keep out the others.
type notRead struct {
	*RefusedError
	host bool
}

// ask makes the request, and returns how long its answer is fresh.
func (d *documents) ask(ctx context.Context, id string) (c Client, fresh time.Duration, failed *notRead) {
	cannot := func(again bool, format string, args ...any) *notRead {
		text := fmt.Sprintf("The gateway cannot use what is at %s: it ", id) + fmt.Sprintf(format, args...) + "."
		return &notRead{RefusedError: &RefusedError{Text: text, Again: again}}
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return c, 0, cannot(true, "has to wait for too many others")
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
		failed = cannot(true, "does not answer")
		failed.host = true
		return c, 0, failed
	case answer.Status == http.StatusTooManyRequests || answer.Status >= http.StatusBadGateway:
		failed = cannot(true, "answers with HTTP %d", answer.Status)
		failed.host = true
		return c, 0, failed
	case answer.Status != http.StatusOK:
		again := answer.Status >= 500 || answer.Status == http.StatusForbidden || answer.Status == http.StatusUnauthorized
		return c, 0, cannot(again, "answers with HTTP %d", answer.Status)
	case !isJSON(answer.Header.Get("Content-Type")):
		return c, 0, cannot(false, "is not JSON")
	}
	if c, err = parseDocument(id, answer.Body); err != nil {
		return c, 0, cannot(false, "%v", err)
	}
	return c, freshness(answer.Header), nil
}

// public makes requests to public addresses. Documents are kept, so connections are not.
type public struct{}

// Do makes a request.
func (public) Do(r *http.Request) (*safehttp.Response, error) {
	c, err := safehttp.New(safehttp.Options{Timeout: fetchTime, MaxBytes: maxDocument})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(r)
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
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
