package main

import "time"

// limit bounds a whole run.
const limit = 20 * time.Minute

// options are the values of the flags.
type options struct {
	rounds   int
	slice    time.Duration
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
}
