package front

import (
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// batch serves several messages in one POST, which the first revisions allow (2025-03-26
// basic/index#batching), each as if it had come alone, all at the same time. Without a stream
// there is no progress, and no question can be asked.
func (f *Front) batch(p *posted) *refuse.Refusal {
	rev, ref := f.session(p)
	if ref == nil {
		ref = p.checkBatch(rev)
	}
	if ref != nil {
		return ref
	}
	answers := make([]exchange.Collected, len(p.batch))
	var members sync.WaitGroup
	for i := range p.batch {
		members.Go(func() { f.answerMember(p, i, &answers[i]) })
	}
	members.Wait()
	var bodies []mcp.Raw
	for i, m := range p.batch {
		// Notifications and responses have no answers.
		if (m.Kind == wire.Request || m.Kind == 0) && answers[i].Body != nil {
			bodies = append(bodies, answers[i].Body)
		}
	}
	if bodies == nil {
		f.Writer.Deadline(p.RC) // the server's deadline may be over by now
		p.W.WriteHeader(http.StatusAccepted)
		return nil
	}
	f.WriteJSON(p.W, http.StatusOK, mcp.Array(bodies...))
	return nil
}

func (f *Front) answerMember(p *posted, i int, w *exchange.Collected) {
	defer func() {
		if cause := recover(); cause != nil {
			f.Recovered(cause, "")
			f.Refuse(w, p.batch[i].ID, refuse.Internal(""))
		}
	}()
	one, ref := p.member(i, w)
	if ref == nil {
		one.Accept = exchange.Accept{JSON: true}
		defer one.release(f)
		ref = f.stateful(one)
	}
	if ref != nil {
		f.turnAway(w, one.Caller, one.Message, ref)
	}
}

// member returns one message of a batch, which is answered to w.
func (p *posted) member(i int, w http.ResponseWriter) (one *posted, ref *refuse.Refusal) {
	one = &posted{Request: p.Request, header: p.header, inBatch: true, old: p.old, on: p.on}
	one.W, one.RC, one.Message = w, http.NewResponseController(w), p.batch[i]
	err := p.errs[i]
	if err == nil {
		one.params, err = readParams(&one.Message)
	}
	switch {
	case err != nil:
		return one, refuse.Bad(err)
	case one.Message.Method == mcp.MethodInitialize:
		return one, refuse.Invalid("Invalid request: initialize is not part of a batch")
	}
	return one, nil
}

// checkBatch refuses a batch that the session's revision does not allow, that mixes requests
// with answers, or whose answers could not be told apart.
func (p *posted) checkBatch(rev *wire.Revision) *refuse.Refusal {
	if !rev.Batches {
		return refuse.Invalid("Invalid request: this revision has no batches: send each message in a POST of its own")
	}
	ids := make(map[string]bool)
	responses := 0
	for i, m := range p.batch {
		switch {
		case p.errs[i] == nil && m.Kind == wire.Response:
			responses++
		case m.ID != nil && ids[string(m.ID)]:
			return refuse.Invalid("Invalid request: two requests of the batch have one id")
		default:
			ids[string(m.ID)] = true
		}
	}
	if responses > 0 && responses < len(p.batch) {
		return refuse.Invalid("Invalid request: responses are not mixed with other messages")
	}
	return nil
}
