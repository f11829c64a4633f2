// Package setup makes a first configuration of the servers that people have already: in files of
// clients, URLs or commands.
//
// It owns reading these untrusted texts, the names of servers, the secrets that become references,
// the text of the configuration, and what each client needs to find the gateway. It leaves files
// and the environment to cmd, and trying the servers to gateway. It starts no goroutines.
package setup
