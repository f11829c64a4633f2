package upstreamtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// ServeStdio serves one connection over stdio until its input ends.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) {
	fmt.Fprintln(os.Stderr, "scripted server is ready")
	p := &linePeer{out: out, inSession: inSession{newSession("")}}
	var running sync.WaitGroup
	all, stop := context.WithCancel(context.Background())
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.ID == nil || m.Method == "" {
			s.take(p.of, m)
			continue
		}
		s.serve(all, &running, p, m)
	}
	stop()
	running.Wait()
}

type linePeer struct {
	inSession

	mu  sync.Mutex // guards out
	out io.Writer
}

func (p *linePeer) send(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(append(encode(m), '\n')) // a client that left needs no answer
}

func (p *linePeer) garbage() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.out, "Listening on port 3000...\n{\"half\": \n\n")
	return false
}

func (p *linePeer) die() { os.Exit(3) }
