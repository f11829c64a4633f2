package front

// Load is what a Front holds at the moment for clients with sessions.
type Load struct {
	Sessions  int // of which anything is held
	Calls     int // under way
	Questions int // without an answer yet
	Streams   int // open GET streams
}

// InUse reports whether anything runs for a session: a call, or a stream.
func (f *Front) InUse(key string) bool {
	l := f.known(key)
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running) > 0 || len(l.streams) > 0
}

// Load counts.
func (f *Front) Load() (sum Load) {
	f.mu.Lock()
	lives := make([]*live, 0, len(f.lives))
	for _, l := range f.lives {
		lives = append(lives, l)
	}
	f.mu.Unlock()
	sum.Sessions = len(lives)
	for _, l := range lives {
		l.mu.Lock()
		sum.Calls += len(l.running)
		sum.Questions += len(l.asked)
		sum.Streams += len(l.streams)
		l.mu.Unlock()
	}
	return sum
}
