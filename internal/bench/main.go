package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := dispatch(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// dispatch runs the measurement or, in a child process, one of the two servers for it.
func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case roleUpstream:
			return serve(ctx, args[1:], func(o role) (httpHandler, error) { return newServer(o.lists, o.classes), nil })
		case roleBare:
			return serve(ctx, args[1:], func(o role) (httpHandler, error) { return newBare(o.to) })
		}
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often each measurement is made")
	flags.DurationVar(&o.slice, "slice", time.Second, "how long one measurement takes")
	flags.IntVar(&o.rate, "rate", 0,
		"how many requests a second all clients make together, each timed from when it was due; by default as many as they can")
	flags.StringVar(&o.scenario, "scenario", "", "run only scenarios whose name contains this")
	flags.StringVar(&o.log, "log", os.DevNull, "file for the gateway's log")
	flags.StringVar(&o.client, "client", "own", "the gateway's http_client: own or standard")
	flags.BoolVar(&o.gate, "gate", false, "fail when a target is missed")
	flags.IntVar(&o.idle, "idle", 0, "instead, measure what so many idle streams cost each")
	flags.BoolVar(&o.replicas, "replicas", false,
		"instead, measure what Redis and forwarding to a session's owner cost, beside a gateway alone; also with -idle")
	flags.BoolVar(&o.full, "full", false,
		"instead, measure a gateway with sign-in of 1,000 users, policy, limits, Redis, audit and log files, and traces of 1 %")
	flags.BoolVar(&o.desk, "console", false,
		"instead, measure what the console costs, with 200 servers, 100,000 calls and 50 viewers")
	flags.IntVar(&o.upstreams, "upstreams", lists, "how many upstreams have lists; another number needs -full")
	flags.StringVar(&o.against, "against", "", "also measure this gatehouse binary, such as an older one")
	flags.BoolVar(&o.tls, "tls", false, "TLS from clients to proxies and from proxies to servers")
	flags.StringVar(&o.since, "since", "",
		"instead, compare with the gateway of this commit, and fail when a small call or an answer of 64 KiB is a tenth dearer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.since != "" {
		o.gate = true
		return measureSince(ctx, o)
	}
	if o.rounds < 1 || o.slice <= 0 || o.rate < 0 || o.idle < 0 || flags.NArg() > 0 {
		return errors.New("want at least one round, a positive slice and no arguments")
	}
	if o.desk && (o.replicas || o.full || o.idle > 0 || o.against != "") {
		return errors.New("-console is a measurement of its own: leave the others, -idle and -against out")
	}
	if o.replicas && (o.against != "" || o.full) || o.full && o.idle > 0 {
		return errors.New("-replicas and -full are measurements of their own: leave the others and -against out")
	}
	if o.upstreams < 1 || o.upstreams != lists && !o.full {
		return errors.New("-upstreams wants at least one, and -full")
	}
	if o.desk {
		return measureDesk(ctx, o)
	}
	if o.idle > 0 {
		return measureIdle(ctx, o)
	}
	return measure(ctx, o)
}
