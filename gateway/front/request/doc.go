// Package request reads what a client has sent: the HTTP request, its body, and the message in it.
//
// It owns the checks that need no caller (method, Host, Origin, media types, sizes), the members of
// params that the endpoint itself reads, and what a batch may consist of. It leaves revisions and
// dialects to gateway/front, and what errors look like to gateway/front/refuse. It starts no goroutine.
//
//	checks.go      checks without the body
//	request.go     the body, and the message or the batch of messages in it
package request
