package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// apiError is what the API answered in place of what was asked for.
type apiError struct {
	Status  int
	Code    string // as in docs/errors.md
	Message string
	Body    []byte
}

func (e *apiError) Error() string { return e.Message }

// get asks the API.
func (v *visit) get(path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return v.ask(http.MethodGet, path, nil, into)
}

// ask sends a request to the API, as the visitor, and reads the answer into a value unless that
// is nil. The error is an *apiError if the API refused the request.
func (v *visit) ask(method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := v.request(v.r.Context(), method, path, text)
	if err != nil {
		return err
	}
	answer := &kept{header: make(http.Header), status: http.StatusOK}
	v.c.deps.API.As(v.who.Operator).ServeHTTP(answer, r)
	if answer.status/100 != 2 {
		refused := &apiError{Status: answer.status, Message: http.StatusText(answer.status), Body: answer.body.Bytes()}
		var told struct {
			Error struct{ Code, Message string }
		}
		if json.Unmarshal(answer.body.Bytes(), &told) == nil && told.Error.Message != "" {
			refused.Code, refused.Message = told.Error.Code, told.Error.Message
		}
		return refused
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer.body.Bytes(), into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (v *visit) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr, r.RequestURI = v.r.RemoteAddr, r.URL.RequestURI()
	r.Header.Set("User-Agent", v.r.UserAgent())
	return r, nil
}

// kept is an http.ResponseWriter that keeps the answer.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }

// follow asks the API for an event stream and passes its events on until ctx ends. An event of
// the API is one line of data.
func (v *visit) follow(ctx context.Context, path string, query url.Values, do func(event, id string, data []byte) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r, err := v.request(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if id := v.r.Header.Get("Last-Event-ID"); id != "" {
		r.Header.Set("Last-Event-ID", id)
	}
	from, to := io.Pipe()
	answer := &piped{kept: kept{header: make(http.Header), status: http.StatusOK}, to: to}
	ended := make(chan struct{})
	var panicked any
	go func() { // until the API has seen that ctx or the pipe has ended
		defer close(ended)
		defer to.Close()
		defer func() { panicked = recover() }()
		v.c.deps.API.As(v.who.Operator).ServeHTTP(answer, r)
	}()
	err = readEvents(from, do)
	stop()
	from.Close()
	<-ended
	if panicked != nil {
		panic(panicked) // where the server keeps it from ending the process
	}
	if answer.status/100 != 2 {
		return &apiError{Status: answer.status, Message: "the records cannot be followed now"}
	}
	return err
}

// piped is an http.ResponseWriter that passes the body on as it comes.
type piped struct {
	kept
	to *io.PipeWriter
}

func (p *piped) Write(b []byte) (int, error) {
	if p.status/100 != 2 {
		return len(b), nil
	}
	return p.to.Write(b)
}

func (p *piped) Flush() {}

// sentence makes an error's text a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
