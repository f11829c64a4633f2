// Package main is a client and a server on mark3labs/mcp-go, which internal/interop puts at both sides of
// the gateway. It is in a module of its own, because what it needs is not the gateway's.
//
//	mcpgo serve HOST:PORT
//	mcpgo connect REVISION URL
//
// The server answers at /mcp, in both eras. The client takes the steps that stand on standard input as
// client.mjs does, and writes what came of each.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 3 && args[0] == "connect":
		return connect(args[1], args[2], os.Stdin, os.Stdout)
	}
	return fmt.Errorf("usage: mcpgo serve HOST:PORT | connect REVISION URL, not %q", args)
}
