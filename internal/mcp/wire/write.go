package wire

import (
	"bytes"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const envelopeStart = `{"jsonrpc":"2.0"`

// AppendRequest appends a request; nil params are left out.
func AppendRequest(dst []byte, id mcp.Raw, method string, params mcp.Raw) []byte {
	dst = append(dst, envelopeStart+`,"id":`...)
	dst = append(dst, id...)
	return appendCall(dst, method, params)
}

// AppendNotification appends a notification; nil params are left out.
func AppendNotification(dst []byte, method string, params mcp.Raw) []byte {
	return appendCall(append(dst, envelopeStart...), method, params)
}

func appendCall(dst []byte, method string, params mcp.Raw) []byte {
	dst = mcp.AppendString(append(dst, `,"method":`...), method)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// AppendResult appends the response to a request; a nil result is written as {}.
func AppendResult(dst []byte, id, result mcp.Raw) []byte {
	dst = appendID(dst, id)
	dst = append(dst, `,"result":`...)
	if result == nil {
		dst = append(dst, '{', '}')
	}
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends the error that answers a request. A nil id is written as null: the
// request's id could not be read.
func AppendError(dst []byte, id mcp.Raw, e *mcp.Error) []byte {
	dst = appendID(dst, id)
	dst = append(dst, `,"error":`...)
	return append(e.AppendTo(dst), '}')
}

func appendID(dst []byte, id mcp.Raw) []byte {
	dst = append(dst, envelopeStart+`,"id":`...)
	if id == nil {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}

// ReadError reads an error that an upstream returned. It never fails: if the code is
// missing or no integer, it becomes CodeUpstreamBadAnswer, and Data holds the original. The
// error shares no memory with raw.
func ReadError(raw mcp.Raw) *mcp.Error {
	code, okCode := errorCode(raw)
	text, _ := raw.Member("message")
	message, okMessage := text.StringValue()
	if !okMessage {
		message = "the server gave no message"
	}
	if !okCode {
		return mcp.Relayed(mcp.CodeUpstreamBadAnswer, message, mcp.Object("error", orNull(raw)))
	}
	data, _ := raw.Member("data")
	return mcp.Relayed(code, message, bytes.Clone(data))
}

func errorCode(raw mcp.Raw) (int, bool) {
	code, ok := raw.Member("code")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(code), 10, 32)
	return int(n), err == nil
}

func orNull(raw mcp.Raw) mcp.Raw {
	if len(raw) == 0 {
		return mcp.Raw("null")
	}
	return raw
}
