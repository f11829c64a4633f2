package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	maxServices = 2000
	maxList     = 64 << 20 // bytes of a list
	maxEvents   = 64 << 20 // bytes of the events of one watch
	listTime    = 30 * time.Second
	watchTime   = 5 * time.Minute
	leastWait   = 200 * time.Millisecond
	// mostWait bounds the time between two attempts to reach the API.
	mostWait = 30 * time.Second
)

// Config says where the Services are.
type Config struct {
	// API is the URL of the API server.
	API string
	// HTTP makes the requests, with what the API server's certificate needs.
	HTTP *http.Client
	// Bearer returns the bearer token of the next request, "" for none.
	Bearer func() (string, error)
	// Namespace is where Services count; "" for all namespaces.
	Namespace string
	// Selector is the label selector of the Services.
	Selector string
	// Domain is that of the cluster's names. Default: cluster.local.
	Domain string
	// Dir is where the files are written.
	Dir string
	// Log gets what changes, and why Services are left out.
	Log *slog.Logger
}

// watcher has the Services of the last list and of the events since then.
type watcher struct {
	Config
	services map[string]service
	version  string            // from which a watch goes on; "" for a new list
	said     map[string]string // why Services are left out, as the log has it
}

// errGone says that a watch cannot go on from its version.
var errGone = errors.New("the version is too old")

// Once lists the Services and writes the files.
func Once(ctx context.Context, cfg Config) error {
	return newWatcher(cfg).list(ctx)
}

// Watch lists the Services and writes the files, and does so at each change until the context ends. While the
// API cannot be reached, the files stay as they are.
func Watch(ctx context.Context, cfg Config) error {
	w := newWatcher(cfg)
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, mostWait
	for {
		err := w.follow(ctx, wait.Reset)
		if ctx.Err() != nil {
			return nil
		}
		pause := leastWait // also between watches that end at once
		if err != nil && !errors.Is(err, errGone) {
			w.version = "" // what was not taken up, or not written, is in the next list
			pause = wait.NextBackOff()
			w.Log.Warn("servers stay as they are: the Kubernetes API does not say what there is, or the files cannot be written",
				failure.ClusterUnknown.Attr(), "error", err, "again", pause)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

func newWatcher(cfg Config) *watcher {
	cfg.Domain = cmp.Or(cfg.Domain, "cluster.local")
	return &watcher{Config: cfg, said: map[string]string{}}
}

// follow lists, if there is no version to go on from, and watches until the server ends it.
func (w *watcher) follow(ctx context.Context, reached func()) error {
	if w.version == "" {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, watchTime+listTime)
	defer cancel()
	body, err := w.get(ctx, url.Values{
		"watch":               {"1"},
		"allowWatchBookmarks": {"true"},
		"resourceVersion":     {w.version},
		"timeoutSeconds":      {strconv.Itoa(int(watchTime.Seconds()))},
	})
	if errors.Is(err, errGone) {
		w.version = ""
	}
	if err != nil {
		return err
	}
	defer body.Close()
	reached()
	events := json.NewDecoder(io.LimitReader(body, maxEvents))
	for {
		var e struct {
			Type   string  `json:"type"`
			Object service `json:"object"`
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("an event: %w", err)
		}
		if err := w.take(e.Type, e.Object); err != nil {
			return err
		}
	}
}

// take applies an event.
func (w *watcher) take(kind string, s service) error {
	switch kind {
	case "ADDED", "MODIFIED":
		if _, known := w.services[s.key()]; !known && len(w.services) >= maxServices {
			return fmt.Errorf("more than %d Services", maxServices)
		}
		w.services[s.key()] = s
	case "DELETED":
		delete(w.services, s.key())
	case "BOOKMARK":
		w.version = s.Metadata.ResourceVersion
		return nil
	default: // ERROR, such as 410 Gone in the stream
		w.version = ""
		return errGone
	}
	w.version = s.Metadata.ResourceVersion
	return w.write()
}

// list reads all Services, and writes the files.
func (w *watcher) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	body, err := w.get(ctx, url.Values{})
	if err != nil {
		return err
	}
	defer body.Close()
	var all struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []service `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxList)).Decode(&all); err != nil {
		return fmt.Errorf("the list of Services: %w", err)
	}
	if len(all.Items) > maxServices {
		return fmt.Errorf("%d Services are more than %d", len(all.Items), maxServices)
	}
	w.services = make(map[string]service, len(all.Items))
	for _, s := range all.Items {
		w.services[s.key()] = s
	}
	w.version = all.Metadata.ResourceVersion
	return w.write()
}

// get asks for Services. The error is errGone if the version is too old.
func (w *watcher) get(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	at := w.API + "/api/v1/services"
	if w.Namespace != "" {
		at = w.API + "/api/v1/namespaces/" + url.PathEscape(w.Namespace) + "/services"
	}
	query.Set("labelSelector", w.Selector)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	token, err := w.Bearer()
	if err != nil {
		return nil, fmt.Errorf("the token: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.Body, nil
	case http.StatusGone:
		err = errGone
	case http.StatusForbidden, http.StatusUnauthorized:
		err = fmt.Errorf("HTTP %d: the service account may not list and watch Services", resp.StatusCode)
	default:
		err = fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return nil, errors.Join(err, resp.Body.Close())
}
