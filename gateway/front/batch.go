package front

import (
	"net/http"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// batch serves several messages in one POST, as the first revisions have them
// (2025-03-26 basic/index#batching). Each is served as if it had come alone, all at
// the same time, and answered in JSON: without a stream there is no progress, and
// nothing can be asked. Nothing reaches a handler as a batch.
func (f *Front) batch(p *posted) *refuse.Refusal {
	messages, errs, err := wire.ScanBatch(p.batch)
	if err != nil {
		return refuse.Bad(err)
	}
	header, modern, ref := p.era()
	if ref != nil {
		return ref
	}
	if modern {
		return refuse.Invalid("Invalid request: this revision has no batches")
	}
	if f.cfg.Clients == ClientsStateless {
		return p.refuseStateful(header)
	}
	_, rev, ref := f.session(arrivalOf(p), header)
	switch {
	case ref != nil:
		return ref
	case !rev.Batches:
		return refuse.Invalid("Invalid request: this revision has no batches: send each message in a POST of its own")
	}
	if ref := checkBatch(messages, errs); ref != nil {
		return ref
	}
	answers := make([]collected, len(messages))
	var members sync.WaitGroup
	for i, m := range messages {
		members.Go(func() {
			one := posted{w: &answers[i], rc: http.NewResponseController(&answers[i]), r: p.r,
				accept: accept{json: true}, caller: p.caller, message: m}
			if ref := one.member(f, errs[i], header); ref != nil {
				f.refuse(one.w, m.ID, ref)
			}
		})
	}
	members.Wait()
	f.joinBatch(p, messages, answers)
	return nil
}

// member serves one message of a batch.
func (p *posted) member(f *Front, err error, header string) (ref *refuse.Refusal) {
	defer func() {
		if cause := recover(); cause != nil {
			f.recovered(cause, "")
			ref = refuse.Internal("")
		}
	}()
	if err != nil {
		return refuse.Bad(err)
	}
	if p.params, err = readParams(p.message); err != nil {
		return refuse.Bad(err)
	}
	if p.message.Method == mcp.MethodInitialize {
		return refuse.Invalid("Invalid request: initialize is not part of a batch")
	}
	return f.stateful(p, header)
}

// checkBatch refuses a batch that mixes what a client asks with what it answers, or
// whose answers could not be told apart.
func checkBatch(messages []wire.Message, errs []error) *refuse.Refusal {
	var ids []string
	responses, others := 0, 0
	for i, m := range messages {
		if errs[i] == nil && m.Kind == wire.Response {
			responses++
			continue
		}
		others++
		if m.ID == nil {
			continue
		}
		if slices.Contains(ids, string(m.ID)) {
			return refuse.Invalid("Invalid request: two requests of the batch have one id")
		}
		ids = append(ids, string(m.ID))
	}
	if responses > 0 && others > 0 {
		return refuse.Invalid("Invalid request: responses are not mixed with other messages")
	}
	return nil
}

// joinBatch writes the answers as an array, or says that there are none to come.
func (f *Front) joinBatch(p *posted, messages []wire.Message, answers []collected) {
	var out []byte
	for i := range answers {
		if messages[i].Kind != wire.Request && messages[i].Kind != 0 || len(answers[i].body) == 0 {
			continue // nothing answers a notification or a response
		}
		if out == nil {
			out = append(out, '[')
		} else {
			out = append(out, ',')
		}
		out = append(out, answers[i].body...)
	}
	if out == nil {
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	f.writeJSON(p.w, http.StatusOK, append(out, ']'))
}

// collected is the answer to one message of a batch. Its status does not count: in
// a batch the error says it all.
type collected struct {
	header http.Header
	body   []byte
}

func (c *collected) Header() http.Header {
	if c.header == nil {
		c.header = make(http.Header)
	}
	return c.header
}

func (c *collected) Write(b []byte) (int, error) {
	c.body = append(c.body, b...)
	return len(b), nil
}

func (c *collected) WriteHeader(int) {}
