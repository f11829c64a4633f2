// Package trial connects to the servers of a configuration without serving clients. It reports
// whether each upstream, issuer and session store answers, what the upstreams offer, what their
// tools cost a model, what the lock does not have, and probable mistakes.
//
// It owns these reports and their words, and the limits for operators who may not change the
// configuration. It leaves connecting to gateway, which passes its results in (Inspect), and printing
// to cmd/gatehouse. Its goroutines end before its functions return.
package trial
