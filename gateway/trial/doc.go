// Package trial connects to what a configuration names, without serving anybody. It says whether
// each upstream, issuer and session store answers, what the upstreams offer, what their tools cost
// a model, what the lock does not have, and what is probably not meant.
//
// It owns these reports and their words, and what operators may try who may not change the
// configuration. It leaves connecting to gateway, which gives it what was seen (Inspect), and printing
// to cmd/gatehouse. Its goroutines end before its functions return.
package trial
