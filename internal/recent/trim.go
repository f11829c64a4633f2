package recent

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// slow is how long a call takes that is looked for later, as are calls that failed.
const slow = time.Second

// trim makes room where items, oldest first, weigh more than most bytes. An eighth of these gets free, so
// that it is seldom needed. It returns what stays, and calls drop with the rest. The newest quarter stays.
// Of the older items go first those of users with more than a sixteenth, then others; in both cases the
// ordinary ones first.
func trim(items []*Item, most int64, weight func(*Item) int64, drop func(*Item)) []*Item {
	over := most/8 - most
	weights := make([]int64, len(items))
	users := make(map[string]int64)
	for i, item := range items {
		weights[i] = weight(item)
		over += weights[i]
		users[item.Record.User] += weights[i]
	}
	old := len(items)
	for newest := most / 4; old > 1 && newest >= weights[old-1]; old-- {
		newest -= weights[old-1]
	}
	leaves := make([]bool, len(items))
	for _, pass := range []struct{ users, ordinary bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		for i := 0; i < old && over > 0; i++ {
			r := items[i].Record
			if leaves[i] || pass.users && users[r.User] <= most/16 || pass.ordinary && !ordinary(r) {
				continue
			}
			leaves[i] = true
			over -= weights[i]
			users[r.User] -= weights[i]
		}
	}
	stay := items[:0]
	for i, item := range items {
		if leaves[i] {
			drop(item)
		} else {
			stay = append(stay, item)
		}
	}
	clear(items[len(stay):])
	return stay
}

// ordinary reports whether a record is of little interest: it says that something went well, and fast.
func ordinary(r *record.Record) bool {
	switch r.Kind {
	case record.KindCall:
		return (r.Outcome == "ok" || r.Outcome == "ask") && r.Duration < slow
	case record.KindSignIn:
		return r.Event == "ok"
	case record.KindCredential:
		return r.Event == "obtained"
	}
	return r.Kind == record.KindSession
}
