package allowance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// leased is the part of a burst that a replica takes from a bucket in advance. A burst of fewer than
	// twice as many calls is counted call by call.
	leased = 16
	// leaseTime is how long a replica may use what it took in advance.
	leaseTime = 5 * time.Second
)

// Redis are Buckets that replicas share, by the algorithm of Memory and Redis's
// clock. A replica takes calls in advance, a lease, so that most calls need no Redis. Together they
// never allow more than the limit. One of them may refuse a call too early while others have leases:
// each at most the sixteenth part of the burst, for five seconds. What is left of a lease goes back with the
// next call there. While Redis is away, each replica counts by itself, with the whole limit: it does
// not know how many replicas there are and how a balancer divides calls among them, and a share of
// the limit would refuse calls that are allowed.
type Redis struct {
	db    *redisdb.DB
	take  *redisdb.Script
	local *Memory

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

// NewRedis returns Buckets in a Redis.
func NewRedis(db *redisdb.DB) *Redis {
	leases, _ := simplelru.NewLRU[string, *lease](maxBuckets, nil) // the only error is about the size
	return &Redis{db: db, local: NewMemory(), take: redisdb.NewScript(takeSource), leases: leases}
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

// request is the request to Redis for a bucket without a lease.
type request struct {
	bucket int // its index
	wanted int
	back   int // the calls of its last lease that were not used
	full   int64
}

// Take takes a call from each of the buckets, or from none. Its error is always nil.
func (r *Redis) Take(ctx context.Context, buckets []Bucket) (wait time.Duration, which int, err error) {
	requests := r.spend(buckets)
	if len(requests) == 0 {
		return 0, 0, nil
	}
	keys, args := make([]string, 0, len(requests)), make([]any, 0, 5*len(requests))
	for _, q := range requests {
		b := buckets[q.bucket]
		sum := sha256.Sum256([]byte(b.Key))
		// On one node of a Cluster all of them, for they are taken as one step.
		keys = append(keys, r.db.Key("b:{limits}:"+hex.EncodeToString(sum[:16])))
		args = append(args, max(b.Interval.Microseconds(), 1), b.Burst, q.wanted, q.back, q.full)
	}
	value, err := r.db.Run(ctx, r.take, keys, args...)
	got := numbers(value)
	if err != nil || len(got) != 2+3*len(requests) {
		r.renew(buckets, requests, make([]int64, 3*len(requests)), true)
		return r.local.Take(ctx, buckets)
	}
	wait = time.Duration(got[0]) * time.Microsecond
	if i := got[1]; i >= 0 && i < int64(len(requests)) {
		which = requests[i].bucket
	}
	r.renew(buckets, requests, got[2:], wait > 0)
	return wait, which, nil
}

// spend takes a call from the lease of each bucket that has one. It returns what the others need.
func (r *Redis) spend(buckets []Bucket) (requests []request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i, b := range buckets {
		l, ok := r.leases.Get(b.Key)
		if ok && l.left > 0 && now.Before(l.until) {
			l.left--
			continue
		}
		q := request{bucket: i, wanted: max(b.Burst/leased, 1)}
		switch {
		case ok && l.asking: // others that need the bucket until then take one call each
			q.wanted = 1
		case ok:
			q.back, q.full = l.left, l.full
			r.leases.Remove(b.Key)
		}
		if q.wanted > 1 {
			r.leases.Add(b.Key, &lease{asking: true})
		}
		requests = append(requests, q)
	}
	return requests
}

// renew keeps what was taken beyond this call. If the call is refused, the leases of the other buckets
// get theirs back.
func (r *Redis) renew(buckets []Bucket, requests []request, got []int64, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range buckets {
		l, ok := r.leases.Peek(b.Key)
		if len(requests) == 0 || requests[0].bucket != i {
			if ok && refused {
				l.left++
			}
			continue
		}
		if requests[0].wanted > 1 {
			l = cmp.Or(l, &lease{}) // others can only have given back to it since
			l.left, l.full, l.asking = l.left+int(max(got[0]-1, 0)), got[1], false
			l.until = time.Now().Add(min(time.Duration(got[2])*time.Microsecond, leaseTime))
			r.leases.Add(b.Key, l)
		}
		requests, got = requests[1:], got[3:]
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
