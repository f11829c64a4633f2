// Package metrics serves the numbers of a gateway to Prometheus.
//
// It owns the registry, the metrics that outlive a reload, the values that are read at each scrape
// (Facts), and the answer to a scrape. Parts define their own numbers in files named metrics.go. It
// starts no goroutines.
package metrics
