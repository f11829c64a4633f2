package request

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// peeked bounds the bytes of an oversized body that are searched for its id.
const peeked = 4 << 10

// errFull means that there is no room for a large message.
var errFull = errors.New("request: no room for a large message")

// Request is an HTTP request with one message of a client, or a batch of them. A GET or DELETE has
// none.
type Request struct {
	W       http.ResponseWriter
	RC      *http.ResponseController
	R       *http.Request
	Accept  Accept
	Caller  mcp.Caller
	Known   time.Time // when its caller was known; zero without a trail
	CallID  string    // of the call, as another replica chose it; "" for a new one
	Body    []byte    // nil until it was read
	Room    *mcp.Room // for a large body, nil for a small one
	Message wire.Message
	Params  Params
	Batch   []wire.Message // in place of Message
	Errs    []error        // of the messages of Batch
}

// Limits bound the body of a request.
type Limits struct {
	Bytes  int64
	Time   time.Duration // limit for the client to send it
	Memory *mcp.Memory   // the memory for large ones
}

// ReadBody checks the headers of a POST and reads its body; a large body needs room. answered says that
// the response answers the message. With a refusal it keeps the id of the message, if it saw it.
func (r *Request) ReadBody(l *Limits, answered bool) (ref *refuse.Refusal) {
	r.Accept, ref = checkPost(r.R, answered)
	length := r.R.ContentLength
	if ref == nil && length > l.Bytes {
		ref = refuse.Large(l.Bytes)
	}
	if ref != nil {
		r.Message.ID = r.peek(l.Time)
		return ref
	}
	// A ResponseWriter without deadlines, as in tests, has no limit.
	_ = r.RC.SetReadDeadline(time.Now().Add(l.Time))
	var from io.Reader = r.R.Body
	var input *seen // of a body that may be large
	if length < 0 || length >= mcp.CountedBytes {
		room := l.Memory.Room(r.Caller)
		r.Room = &room
		input = &seen{r: r.R.Body, room: r.Room, meter: mcp.Meter{Length: length}}
		from = input
	}
	var err error
	if r.Body, err = wire.ReadAll(from, length, l.Bytes); err == nil {
		_ = r.RC.SetReadDeadline(time.Time{})
		return nil
	}
	if input != nil {
		r.Message.ID = wire.PeekID(input.prefix)
	}
	switch {
	case errors.Is(err, errFull):
		return refuse.Full()
	case errors.Is(err, wire.ErrTooLarge):
		return refuse.Large(l.Bytes)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse.Slow()
	}
	return refuse.Cut()
}

// peek returns the id of a message that will not be read, if it is near the beginning.
func (r *Request) peek(most time.Duration) mcp.Raw {
	if r.R.Header.Get("Expect") != "" { // the body was not sent yet and need not be
		return nil
	}
	_ = r.RC.SetReadDeadline(time.Now().Add(most)) // this remains set, since net/http reads the rest
	prefix := make([]byte, peeked)
	n, _ := io.ReadFull(r.R.Body, prefix)
	return wire.PeekID(prefix[:n])
}

// seen keeps the first bytes of what it reads, and takes room for all of it.
type seen struct {
	r      io.Reader
	prefix []byte
	room   *mcp.Room
	meter  mcp.Meter
}

func (s *seen) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if room := peeked - len(s.prefix); room > 0 {
		s.prefix = append(s.prefix, p[:min(n, room)]...)
	}
	if !s.meter.Read(s.room, n) {
		return 0, errFull
	}
	return n, err
}

// Scan finds the message, or the messages of a batch, in the body.
func (r *Request) Scan() *refuse.Refusal {
	var err error
	if wire.IsBatch(r.Body) {
		r.Batch, r.Errs, err = wire.ScanBatch(r.Body)
	} else if r.Message, err = wire.Scan(r.Body); err == nil {
		r.Params, err = readParams(&r.Message)
	}
	if err != nil {
		return refuse.Bad(err)
	}
	return nil
}

// Member returns the request of one message of a batch, which is answered to w.
func (r *Request) Member(i int, w http.ResponseWriter) (one Request, ref *refuse.Refusal) {
	one = *r
	one.W, one.RC, one.Body, one.Room = w, http.NewResponseController(w), nil, nil
	one.Message, one.Batch, one.Errs = r.Batch[i], nil, nil
	err := r.Errs[i]
	if err == nil {
		one.Params, err = readParams(&one.Message)
	}
	switch {
	case err != nil:
		return one, refuse.Bad(err)
	case one.Message.Method == mcp.MethodInitialize:
		return one, refuse.Invalid("Invalid request: initialize is not part of a batch")
	}
	return one, nil
}

// CheckBatch refuses a batch that the session's revision does not allow, that mixes requests with
// answers, or that uses an id twice.
func (r *Request) CheckBatch(rev *wire.Revision) *refuse.Refusal {
	if !rev.Batches {
		return refuse.Invalid("Invalid request: this revision has no batches: send each message in a POST of its own")
	}
	ids := make(map[string]bool)
	responses := 0
	for i, m := range r.Batch {
		switch {
		case r.Errs[i] == nil && m.Kind == wire.Response:
			responses++
		case m.ID != nil && ids[string(m.ID)]:
			return refuse.Invalid("Invalid request: two requests of the batch have one id")
		default:
			ids[string(m.ID)] = true
		}
	}
	if responses > 0 && responses < len(r.Batch) {
		return refuse.Invalid("Invalid request: responses are not mixed with other messages")
	}
	return nil
}

// Params are the members of a message's params that the endpoint itself reads; nil for absent ones.
type Params struct {
	Name, URI, Ref, Notifications, Answers, State, Task, TaskID, Arguments mcp.Raw
	// Members of _meta.
	Version, ClientInfo, Caps, LogLevel, ProgressToken mcp.Raw
}

// readParams reads params. It refuses objects that two readers could read differently. It takes
// null members out of them, and an empty cursor: many clients write absent values as null.
func readParams(m *wire.Message) (p Params, err error) {
	if m.Params == nil {
		return p, nil
	}
	var meta, cursor, context, caps, info mcp.Raw
	members := [...]*mcp.Raw{&meta, &p.Name, &p.URI, &p.Ref, &p.Notifications, &p.Answers, &p.State, &p.Task, &p.TaskID,
		&p.Arguments, &cursor, &context, &caps, &info}
	names := [...]string{"_meta", "name", "uri", "ref", "notifications", "inputResponses", "requestState",
		"task", "taskId", "arguments", "cursor", "context", "capabilities", "clientInfo"}
	if err = wire.ReadObject(m.Params, m.Outline, members[:], names[:]...); err != nil {
		return p, err
	}
	for i, value := range members {
		if *value != nil && (value.IsNull() || value == &cursor && string(cursor) == `""`) {
			*value, m.Params = nil, m.Params.Without(names[i])
		}
	}
	ofMeta := [...]*mcp.Raw{&p.Version, &p.ClientInfo, &p.Caps, &p.LogLevel, &p.ProgressToken}
	err = wire.ReadObject(meta, nil, ofMeta[:],
		wire.MetaVersion, wire.MetaClientInfo, wire.MetaClientCaps, wire.MetaLogLevel, wire.MetaProgressToken)
	if err != nil {
		return p, err
	}
	for _, value := range ofMeta {
		if value.IsNull() {
			*value = nil
		}
	}
	if m.Method == mcp.MethodComplete {
		return p, wire.CheckObject(p.Ref, "type", "name", "uri")
	}
	return p, nil
}

// RoutingName returns the name that the method is routed by, "" if the method has none. It
// refuses arguments for it that are none.
func (p Params) RoutingName(method string) (string, error) {
	if p.Arguments != nil && !p.Arguments.IsObject() {
		return "", refuse.InvalidParams("arguments is no object")
	}
	var raw mcp.Raw
	switch member := mcp.NameMember(method); {
	case member == "name":
		raw = p.Name
	case member == "uri":
		raw = p.URI
	case member == "taskId":
		raw = p.TaskID
	case method == mcp.MethodSkillsGet: // a URI in one spelling, a name in the other
		if (p.URI != nil) == (p.Name != nil) {
			return "", refuse.InvalidParams("skills/get needs either a uri or a name")
		}
		if raw = p.URI; raw == nil {
			raw = p.Name
		}
		if !wire.NameOK(raw) {
			return "", refuse.InvalidParams("uri and name are strings")
		}
	case method == mcp.MethodComplete:
		switch p.Ref.At("type").Text() {
		case "ref/prompt":
			raw = p.Ref.At("name")
		case "ref/resource":
			raw = p.Ref.At("uri")
		default:
			return "", refuse.InvalidParams("ref.type is neither ref/prompt nor ref/resource")
		}
	default:
		return "", nil
	}
	if !wire.NameOK(raw) {
		return "", refuse.InvalidParams("%s needs a name, URI or id that is a string", method)
	}
	return raw.Text(), nil
}
