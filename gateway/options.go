package gateway

import (
	"log/slog"
	"net"
)

// Options say what a Gateway is made of. The zero value lacks only a configuration.
type Options struct {
	// ConfigFile is read by New; "" takes Config.
	ConfigFile string
	// Config is the configuration where there is no file. It may be invalid: New
	// checks it.
	Config Config
	// Log takes all log lines; nil for standard error, as telemetry.log says.
	Log *slog.Logger
	// Version is what the gateway tells clients and upstreams of itself, "" for "dev".
	Version string
	// Listener serves in place of Config.Listen, for tests; nil for none. The gateway
	// closes it.
	Listener net.Listener
}
