package doorway

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
)

// Kinds of addresses to listen at.
const (
	TCP     = "tcp"     // host:port
	Unix    = "unix"    // unix:/path
	Systemd = "systemd" // systemd, or systemd:NAME
)

// Kind returns the kind of an address, and the path of a socket or the name of a passed one.
func Kind(address string) (kind, name string) {
	kind, name, _ = strings.Cut(address, ":")
	if kind == Unix || kind == Systemd {
		return kind, name
	}
	return TCP, ""
}

// Passed are the sockets that systemd has opened for this process (sd_listen_fds(3)). Its zero value
// takes them over when the first is asked for.
type Passed struct {
	read  bool
	files []*os.File
}

// Listen listens at an address of any kind.
func (p *Passed) Listen(address string) (net.Listener, error) {
	switch kind, name := Kind(address); kind {
	case Unix:
		return listenUnix(name)
	case Systemd:
		return p.take(name)
	}
	return net.Listen(TCP, address)
}

// Rest returns an error if systemd has passed sockets at which nothing listens: their clients would
// wait for ever.
func (p *Passed) Rest() error {
	p.open()
	if len(p.files) == 0 {
		return nil
	}
	err := fmt.Errorf("systemd has passed %s, too: write systemd:NAME at listen or admin.listen, or take it out of the socket unit",
		strings.Join(p.names(), ", "))
	for _, f := range p.files {
		f.Close()
	}
	p.files = nil
	return err
}

// take returns the listener of a passed socket; without a name, of the only one.
func (p *Passed) take(name string) (net.Listener, error) {
	p.open()
	at := slices.IndexFunc(p.files, func(f *os.File) bool { return name == "" || f.Name() == name })
	switch {
	case len(p.files) == 0:
		return nil, errors.New("systemd has passed no socket: start the gateway by its socket unit")
	case at < 0:
		return nil, fmt.Errorf("systemd has passed no socket %q, but %s", name, strings.Join(p.names(), ", "))
	case name == "" && len(p.files) > 1:
		return nil, fmt.Errorf("systemd has passed several sockets: write systemd:NAME with one of %s",
			strings.Join(p.names(), ", "))
	}
	file := p.files[at]
	p.files = slices.Delete(p.files, at, at+1)
	defer file.Close() // the listener has its own descriptor
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("the passed socket %s takes no connections: %w", file.Name(), err)
	}
	return l, nil
}

// open takes over the sockets, once. Programs then do not inherit them.
func (p *Passed) open() {
	if !p.read {
		p.read, p.files = true, activation.Files(true)
	}
}

func (p *Passed) names() (names []string) {
	for _, f := range p.files {
		names = append(names, f.Name())
	}
	return names
}
