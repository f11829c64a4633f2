package front

import (
	"context"
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A call ends with its replica. Whoever follows its stream elsewhere is told so: the
// first of them to notice finishes the stream with an error. A stream is finished once,
// so that a replica that was only cut off for a time, and finds its calls' streams
// finished, writes no more of them (exchange.fence).

// maxBuried bounds the streams that are finished at a time: many calls end with a replica.
const maxBuried = 16

// watchCall tells when the replica that writes the stream of a call has gone. gone is nil
// for one that is written here.
func (f *Front) watchCall(stream string) (gone <-chan struct{}, stop func()) {
	replica, _, _ := strings.Cut(strings.TrimPrefix(stream, callStream), "-")
	if f.mail == nil || replica == f.mail.Self() || !isReplica(replica) {
		return nil, func() {}
	}
	return f.mail.Watch(replica)
}

// bury finishes the stream of a call whose replica has gone, unless that is done.
func (f *Front) bury(ctx context.Context, key, stream string, rev *wire.Revision) error {
	select {
	case f.burying <- struct{}{}:
		defer func() { <-f.burying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	log := f.sessions.Log()
	request, err := log.Request(ctx, key, stream)
	switch {
	case err != nil:
	case request == nil:
		err = log.End(ctx, key, stream)
	default:
		_, err = log.Finish(ctx, key, stream, f.lostAnswer(request, stream, rev))
	}
	if errors.Is(err, session.ErrNotFound) { // somebody else did, or it is not there any more
		return nil
	}
	return err
}

// lostAnswer is the response to a request whose own is lost.
func (f *Front) lostAnswer(request mcp.Raw, stream string, rev *wire.Revision) []byte {
	return wire.AppendError(nil, request, f.readable(rev, "", callOf(stream), refuse.LostError()))
}
