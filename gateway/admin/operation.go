package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// Operation is a question or an action of operators: the API serves it, and the console asks for it.
// The role and the work are the same for both.
type Operation[Q, A any] struct {
	pattern string // of the API: method and path, as for http.ServeMux
	role    string // the needed one
	read    func(*exchange) (Q, error)
	do      func(context.Context, *API, Operator, Q) (A, error)
}

// None is the question of an operation that needs none, and the answer of one that has none.
type None struct{}

// Asker answers operators: an *API.
type Asker interface {
	// Ask answers the question q of an operation into a value of its type. Its error is a *Refusal, a
	// *BadDraft, or that of the gateway.
	Ask(r *http.Request, who Operator, o Asked, q, into any) error
}

// Asked is an operation with any types of question and answer.
type Asked interface {
	// Pattern is its method and path in the API, as for http.ServeMux.
	Pattern() string
	needs() (role string)
	serve(a *API, x *exchange) error
	answer(ctx context.Context, a *API, who Operator, q, into any) error
}

// Ask asks as an operator that the caller has identified, for a request. Errors are those of Asker.
func (o Operation[Q, A]) Ask(by Asker, r *http.Request, who Operator, q Q) (answer A, err error) {
	err = by.Ask(r, who, o, q, &answer)
	return answer, err
}

// Pattern is the method and the path in the API.
func (o Operation[Q, A]) Pattern() string { return o.pattern }

func (o Operation[Q, A]) needs() string { return o.role }

func (o Operation[Q, A]) serve(a *API, x *exchange) error {
	q, err := o.read(x)
	if err != nil {
		return err
	}
	answer, err := o.do(x.r.Context(), a, x.who, q)
	if err != nil {
		return err
	}
	if _, none := any(answer).(None); none {
		x.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return x.answer(http.StatusOK, answer)
}

func (o Operation[Q, A]) answer(ctx context.Context, a *API, who Operator, q, into any) (err error) {
	*into.(*A), err = o.do(ctx, a, who, q.(Q))
	return err
}

// exchange is a request to the API and its answer.
type exchange struct {
	w   http.ResponseWriter
	r   *http.Request
	who Operator
}

// nothing reads no question.
func nothing(*exchange) (None, error) { return None{}, nil }

// segment reads a part of the path.
func segment(name string) func(*exchange) (string, error) {
	return func(x *exchange) (string, error) { return x.r.PathValue(name), nil }
}

// parameter reads a parameter of the URL.
func parameter(name string) func(*exchange) (string, error) {
	return func(x *exchange) (string, error) { return x.r.URL.Query().Get(name), nil }
}

// body reads an object of at most so many bytes.
func body[Q any](most int64) func(*exchange) (Q, error) {
	return func(x *exchange) (q Q, err error) {
		text, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, most))
		if err != nil {
			return q, BadRequest("the body is too large, or was cut off")
		}
		if err := json.Unmarshal(text, &q); err != nil {
			return q, BadRequest("the body is not what the description says: " + err.Error())
		}
		return q, nil
	}
}

func (x *exchange) answer(status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(append(text, '\n')) // a client that has left
	return nil
}

// some returns a list that JSON writes as [] if it is empty.
func some[T any](list []T) []T { return append([]T{}, list...) }

// Refusal is an error that the operator may read.
type Refusal struct {
	Status  int    `json:"-"`    // of HTTP
	Code    string `json:"code"` // as in docs/errors.md
	Message string `json:"message"`
}

func (e *Refusal) Error() string { return e.Message }

func refusal(status int, name failure.Name, message string) error {
	return &Refusal{status, name.String(), message}
}

// BadRequest is the error for a mistake in a question.
func BadRequest(message string) error {
	return refusal(http.StatusBadRequest, failure.AdminRequest, message)
}

// busy is the error when the gateway has no time for a question now.
func busy(message string) error {
	return refusal(http.StatusServiceUnavailable, failure.AdminBusy, message)
}
