package trail

import "time"

// Slow is how long a call takes that is looked for later, as are calls that failed.
const Slow = time.Second

// Memory is what decides which of the things that operators can look at goes first.
type Memory struct {
	Bytes int64
	Owner string
	// Ordinary says that few will look for it: a call that went well, and fast.
	Ordinary bool
}

// Trim makes room where things, oldest first, take more than most bytes. An eighth of these gets free, so
// that it is seldom needed. It returns what stays, and calls gone with the rest. The newest quarter stays.
// Of the older things go first those of owners with more than a sixteenth, then others; in both cases the
// ordinary ones first.
func Trim[T any](all []T, most int64, about func(T) Memory, gone func(T)) []T {
	over := most/8 - most
	each := make([]Memory, len(all))
	sizes := make(map[string]int64)
	for i, one := range all {
		each[i] = about(one)
		over += each[i].Bytes
		sizes[each[i].Owner] += each[i].Bytes
	}
	old := len(all)
	for newest := most / 4; old > 1 && newest >= each[old-1].Bytes; old-- {
		newest -= each[old-1].Bytes
	}
	leaves := make([]bool, len(all))
	for _, pass := range []struct{ owners, ordinary bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		for i := 0; i < old && over > 0; i++ {
			m := &each[i]
			if leaves[i] || pass.owners && sizes[m.Owner] <= most/16 || pass.ordinary && !m.Ordinary {
				continue
			}
			leaves[i] = true
			over -= m.Bytes
			sizes[m.Owner] -= m.Bytes
		}
	}
	stay := all[:0]
	for i, one := range all {
		if leaves[i] {
			gone(one)
		} else {
			stay = append(stay, one)
		}
	}
	clear(all[len(stay):])
	return stay
}
