package cluster

import (
	"slices"
	"time"
)

// missingFor is how long a replica is missed.
const missingFor = time.Hour

// Missing is a replica that has gone without leaving, and that no other has replaced since.
type Missing struct {
	Name, Address string
	Gone          time.Time
}

// missing are the replicas that are missed, the first that went first.
type missing []Missing

// went misses a replica that has gone, unless it was leaving.
func (all *missing) went(p *peer, now time.Time) {
	if !p.lease.Leaving && len(*all) < maxReplicas {
		*all = append(*all, Missing{Name: p.name, Address: p.address, Gone: now})
	}
}

// came takes a replica that has come for one that is missed: for itself, or else for the first
// that went, since a process has another name than the one before it.
func (all *missing) came(name string) {
	i := slices.IndexFunc(*all, func(one Missing) bool { return one.Name == name })
	if i < 0 {
		i = 0
	}
	if i < len(*all) {
		*all = slices.Delete(*all, i, i+1)
	}
}

// at returns those who are still missed.
func (all missing) at(now time.Time) (still []Missing) {
	for _, one := range all {
		if now.Sub(one.Gone) < missingFor {
			still = append(still, one)
		}
	}
	return still
}
