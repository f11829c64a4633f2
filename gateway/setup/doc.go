// Package setup makes a first configuration of what people have already. That is the files in which
// clients keep their servers, a URL, or a command.
//
// It owns reading these, which are anybody's words, the names of servers, what of them is a secret
// and becomes a reference, the text of the configuration, and what each client needs to find the
// gateway. It leaves files and the environment to cmd, and trying the servers to gateway. It starts
// no goroutines.
package setup
