package admit

import "sync"

// results counts the calls that wait for the results of tasks, by user.
type results struct {
	mu    sync.Mutex // guards users
	users map[string]int
}

// begin reports whether one more call of the user may wait. It then has to end.
func (r *results) begin(user string, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user] >= most {
		return false
	}
	r.users[user]++
	return true
}

func (r *results) end(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user]--; r.users[user] == 0 {
		delete(r.users, user)
	}
}
