package policy

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// A replica takes the leased part of a burst from a bucket in advance, at most mostLeased calls. A
	// burst of fewer than twice leased is counted call by call.
	leased, mostLeased = 16, 64
	// leaseTime is how long a replica may use what it took in advance.
	leaseTime = time.Second
)

// RedisBuckets are Buckets that replicas share, by the algorithm of MemoryBuckets and Redis's
// clock. A replica takes calls in advance, a lease, so that most calls need no Redis. Together they
// never allow more than the limit. One of them may refuse a call too early while others have leases:
// each at most the sixteenth part of the burst, for a second. What is left of a lease goes back with the
// next call there. While Redis is away, each replica counts by itself, with the whole limit: it does
// not know how many replicas there are and how a balancer divides calls among them, and a share of
// the limit would refuse calls that are allowed.
type RedisBuckets struct {
	db    *redisdb.DB
	take  *redisdb.Script
	local *MemoryBuckets

	mu     sync.Mutex // guards leases
	leases *simplelru.LRU[string, *lease]
}

// lease is what this replica has taken from a bucket in advance.
type lease struct {
	left   int
	full   int64     // Redis's time at which the bucket is full again, in microseconds
	until  time.Time // it must not be used any more, because the bucket is full or leaseTime is over
	asking bool      // Redis is being asked for it
}

// NewRedisBuckets returns Buckets in a Redis.
func NewRedisBuckets(db *redisdb.DB) *RedisBuckets {
	leases, _ := simplelru.NewLRU[string, *lease](maxBuckets, nil) // the only error is about the size
	return &RedisBuckets{db: db, local: NewMemoryBuckets(), take: redisdb.NewScript(takeSource), leases: leases}
}

// takeSource: KEYS are the buckets; each holds the time in microseconds at which it is full
// again. ARGV: of each the interval, the burst, how many calls are wanted, and how many are given
// back that were taken when it was to be full at this time; they count only if it was not full since.
// Returns how long to wait, and for which bucket; then of each how many calls were taken, when it is
// full, and in how long.
const takeSource = `#!lua
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local wait, which = 0, 0
local full, taken = {}, {}
for i, key in ipairs(KEYS) do
  local interval, burst, wanted, back, before = unpack(ARGV, 5 * i - 4, 5 * i)
  full[i] = tonumber(redis.call('GET', key) or '0')
  if tonumber(before) > now then full[i] = full[i] - back * interval end
  full[i] = math.max(full[i], now)
  local room = now + burst * interval - full[i]
  taken[i] = math.min(tonumber(wanted), math.floor(room / interval))
  if interval - room > wait then wait, which = interval - room, i - 1 end
end
local got = {math.ceil(wait), which}
for i, key in ipairs(KEYS) do
  if wait > 0 then taken[i] = 0 end
  full[i] = full[i] + taken[i] * ARGV[5 * i - 4]
  if full[i] > now then
    redis.call('SET', key, string.format('%.0f', full[i]), 'PX', math.ceil((full[i] - now) / 1000))
  end
  for _, number in ipairs({taken[i], full[i], full[i] - now}) do got[#got + 1] = number end
end
return got`

// Take takes a call from each of the buckets, or from none. Its error is always nil.
func (r *RedisBuckets) Take(ctx context.Context, buckets []Bucket) (wait time.Duration, which int, err error) {
	short, args := r.spend(buckets)
	if len(short) == 0 {
		return 0, 0, nil
	}
	keys := make([]string, 0, len(short))
	for _, i := range short {
		// On one node of a Cluster all of them, for they are taken as one step.
		keys = append(keys, r.db.Key("b:{limits}:"+keyPart(buckets[i].Key)))
	}
	value, err := r.db.Run(ctx, r.take, keys, args...)
	got := numbers(value)
	if err != nil || len(got) != 2+3*len(short) {
		r.renew(buckets, short, make([]int64, 3*len(short)), true)
		return r.local.Take(ctx, buckets)
	}
	wait = time.Duration(got[0]) * time.Microsecond
	if index := got[1]; index >= 0 && index < int64(len(short)) {
		which = short[index]
	}
	r.renew(buckets, short, got[2:], wait > 0)
	return wait, which, nil
}

// spend takes a call from the lease of each bucket that has one. It returns the indices of the others,
// and what the script is asked for them.
func (r *RedisBuckets) spend(buckets []Bucket) (short []int, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i, b := range buckets {
		l, ok := r.leases.Get(b.Key)
		if ok && l.left > 0 && now.Before(l.until) {
			l.left--
			continue
		}
		wanted, back, full := min(max(b.Burst/leased, 1), mostLeased), 0, int64(0)
		switch {
		case ok && l.asking: // others that need the bucket meanwhile take one call each
			wanted = 1
		case ok:
			back, full = l.left, l.full
			fallthrough
		case wanted > 1:
			r.leases.Add(b.Key, &lease{asking: true})
		}
		short = append(short, i)
		args = append(args, max(b.Interval.Microseconds(), 1), b.Burst, wanted, back, full)
	}
	return short, args
}

// renew keeps what was taken from the short buckets beyond this call. If the call is refused, the
// others get theirs back.
func (r *RedisBuckets) renew(buckets []Bucket, short []int, got []int64, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range buckets {
		l, ok := r.leases.Peek(b.Key)
		if len(short) == 0 || short[0] != i {
			if ok && refused {
				l.left++
			}
			continue
		}
		taken, full, left := got[0], got[1], time.Duration(got[2])*time.Microsecond
		short, got = short[1:], got[3:]
		switch {
		case taken > 1:
			r.leases.Add(b.Key, &lease{left: int(taken - 1), full: full, until: time.Now().Add(min(left, leaseTime))})
		case ok && l.asking:
			r.leases.Remove(b.Key)
		}
	}
}

// numbers returns the elements of a reply, nil if it is no list of numbers.
func numbers(reply any) []int64 {
	list, _ := reply.([]any)
	all := make([]int64, 0, len(list))
	for _, element := range list {
		n, ok := element.(int64)
		if !ok {
			return nil
		}
		all = append(all, n)
	}
	return all
}
