package auth

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	fetchTime = 5 * time.Second // of metadata and keys together

	// Bounds of the time between periodic fetches, which drop withdrawn keys.
	refreshEvery = 10 * time.Minute
	refreshMin   = time.Minute
	refreshMax   = time.Hour

	// metadataEvery is how long metadata are cached.
	metadataEvery = time.Hour

	// Bounds of the time between attempts at an issuer that does not answer. Half of it is
	// random, so that replicas do not ask in step.
	retryMin = 2 * time.Second
	retryMax = time.Minute

	// demandEvery is the least time between two fetches for unknown keys. Any stranger can make up
	// such keys, and every fetch brings new keys anyway. Until then, tokens with an unknown key
	// cannot be judged.
	demandEvery = 30 * time.Second
	// unknownFor is how long a key counts as unknown after a fetch without it.
	unknownFor  = time.Minute
	maxUnknown  = 1000
	maxWaiting  = 1000 // requests that wait for a fetch
	maxAttempts = 2    // fetches that a request waits for
)

// keys are the keys of an issuer. Only run fetches; lookups read, and ask run to fetch.
type keys struct {
	issuer   string
	jwks     string // configured
	keyless  bool   // there need not be keys: opaque tokens can be introspected
	client   Client
	log      *slog.Logger
	maxStale time.Duration
	demand   chan struct{} // holds one wish for a fetch
	// generation changes with the set, so that verified tokens can be forgotten then.
	generation atomic.Uint64
	unknown    *lru.Cache[string, newKey] // keys that tokens name, and the set does not have

	mu         sync.Mutex // guards the fields below
	set        *keySet    // the last good one, nil before the first
	fetched    time.Time  // when it was
	asked      int        // how many fetches had begun with the last good one
	meta       metadata
	metaAt     time.Time
	next       time.Time // of the next periodic fetch
	fetching   chan struct{}
	ended      bool  // run has ended
	failure    error // of the last fetch, nil when it was good
	failures   int   // since the last good one; written by run alone
	lastDemand time.Time
	waiting    int
	count      Counts
}

// Counts are counters since the start.
type Counts struct {
	Fetches     int // of the key set
	Failures    int // of them
	UnknownKeys int // tokens that named a key that the issuer does not have
}

func newKeys(cfg Config, iss Issuer, client Client, log *slog.Logger) (*keys, error) {
	unknown, err := lru.New[string, newKey](maxUnknown)
	if err != nil {
		return nil, err
	}
	return &keys{
		issuer:   iss.URL,
		jwks:     iss.JWKSURL,
		keyless:  iss.Introspection != nil,
		client:   client,
		log:      log.With("issuer", iss.URL),
		maxStale: cfg.MaxStale,
		demand:   make(chan struct{}, 1),
		unknown:  unknown,
		fetching: make(chan struct{}), // the first fetch, which requests may wait for already
		failure:  errors.New("not fetched yet"),
	}, nil
}

// run fetches until ctx ends: at once, periodically, and when a token names an unknown key.
func (k *keys) run(ctx context.Context) {
	defer k.end()
	for {
		timer := time.NewTimer(k.fetch(ctx))
		select {
		case <-timer.C:
		case <-k.demand:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// end releases all who wait.
func (k *keys) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	if k.fetching != nil {
		close(k.fetching)
		k.fetching = nil
	}
}

// fetch gets a new set and returns the delay until the next fetch. A failure keeps the last
// good set.
func (k *keys) fetch(ctx context.Context) time.Duration {
	meta, stale := k.begin()
	set, keep, meta, err := k.get(ctx, meta, stale)
	if err != nil {
		wait := min(retryMin<<min(k.failures, 10), retryMax)
		wait -= time.Duration(rand.Int64N(int64(wait) / 2))
		usable := k.failed(err, wait)
		if ctx.Err() == nil {
			k.log.Warn("keys could not be fetched", failure.IssuerDown.Attr(), "error", err, "failures", k.failures, "retry_in",
				wait.String(), "keys_usable", usable)
		}
		return wait
	}
	wait := refreshEvery
	if keep > 0 {
		wait = min(max(keep, refreshMin), refreshMax)
	}
	if k.failures > 0 {
		k.log.Info("keys are fetched again", "failures", k.failures)
	}
	if k.succeeded(set, meta, stale, wait) {
		k.log.Info("keys changed", "keys", len(set.keys), "refused", set.refused)
	}
	if len(set.keys) == 0 && !k.keyless {
		k.log.Warn("the issuer has no key that can verify a token", failure.KeysMissing.Attr(), "refused", set.refused)
	}
	return wait
}

// begin marks that a fetch runs. It returns the metadata for it; stale says that they should
// be read again.
func (k *keys) begin() (meta metadata, stale bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.demand: // this is the fetch that was wished for
	default:
	}
	if k.fetching == nil {
		k.fetching = make(chan struct{})
	}
	k.count.Fetches++
	return k.meta, time.Since(k.metaAt) >= metadataEvery || k.failure != nil
}

// failed ends a fetch; usable reports whether the last good set is still valid.
func (k *keys) failed(err error, wait time.Duration) (usable bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count.Failures++
	k.failures++
	k.done(err, wait)
	return k.usable(time.Now())
}

// succeeded ends a fetch; changed reports whether the set differs from the last one.
func (k *keys) succeeded(set *keySet, meta metadata, newMeta bool, wait time.Duration) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failures = 0
	k.fetched = time.Now()
	k.asked = k.count.Fetches
	k.meta = meta
	if newMeta {
		k.metaAt = k.fetched
	}
	if changed = k.set == nil || k.set.text != set.text; changed {
		if k.set != nil {
			k.withdrawn(k.set, set)
		}
		k.set = set
		k.generation.Add(1)
	}
	k.done(nil, wait)
	return changed
}

// done releases those who wait for a fetch. The caller holds mu.
func (k *keys) done(err error, wait time.Duration) {
	k.failure = err
	k.next = time.Now().Add(wait)
	close(k.fetching)
	k.fetching = nil
}

// get fetches the metadata, if needed, and the keys.
func (k *keys) get(ctx context.Context, meta metadata, stale bool) (*keySet, time.Duration, metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if stale && k.jwks == "" {
		found, err := discover(ctx, k.client, k.issuer)
		if err != nil {
			return nil, 0, meta, err
		}
		meta = found
	}
	at := k.jwks
	if at == "" {
		at = meta.jwks
	}
	if at == "" && k.keyless {
		return &keySet{}, 0, meta, nil
	}
	if at == "" {
		return nil, 0, meta, errors.New("the metadata do not say where the keys are")
	}
	body, keep, err := get(ctx, k.client, at)
	if err != nil {
		return nil, 0, meta, err
	}
	set, err := parseKeySet(body)
	return set, keep, meta, err
}

// usable reports whether the set is still valid. The caller holds mu.
func (k *keys) usable(now time.Time) bool {
	return k.set != nil && now.Sub(k.fetched) < k.maxStale
}
