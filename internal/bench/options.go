package main

import "time"

// limit bounds a whole run.
const limit = 20 * time.Minute

// options are the values of the flags.
type options struct {
	rounds   int
	slice    time.Duration
	rate     int // requests a second of all clients together; 0 for as many as they can make
	scenario string
	log      string
	client   string
	gate     bool
	idle     int
	replicas bool
	full     bool
	desk     bool
	// upstreams is how many upstreams offer nothing but lists.
	upstreams int
	against   string
	since     string // a commit
	tls       bool
}
