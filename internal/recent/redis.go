package recent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// sharedRecords bounds what stands in Redis, which another replica has to read, and keptFor how long.
	sharedRecords = 100_000
	keptFor       = 24 * time.Hour
	// partBytes is the size of a part at which another one is begun. A record has less.
	partBytes = 64 << 10
	// mostOutgoing bounds the records that wait for Redis.
	mostOutgoing = 4096
	// mostBehind bounds their memory, in bytes.
	mostBehind = 8 << 20
	// partsAtOnce is how many parts are read at a time.
	partsAtOnce = 16
	// partTime is how long Redis may take for a part.
	partTime = 2 * time.Second
)

// shared is the log in Redis: numbered parts, each a few records of one replica, sealed.
type shared struct {
	deps      Deps
	keys      []string
	add, list *redisdb.Script

	mu       sync.Mutex // guards the fields below
	outgoing []*Item
	bytes    int64

	reading chan struct{} // holds one token: taken to read
	last    int64         // the number of the last part that was read; of the reader only
}

// addSource: KEYS are the description of the log and its parts. ARGV: a part, how many records
// it has, and the bounds: records, bytes, milliseconds. Numbers begin with the time, so that
// those of a log that was lost are not used again.
const addSource = `#!lua
local head = redis.call('HMGET', KEYS[1], 'first', 'next', 'records', 'bytes')
local t = redis.call('TIME')
local first, next = tonumber(head[1]), tonumber(head[2])
local records, bytes = tonumber(head[3] or 0), tonumber(head[4] or 0)
if not first then
  next = t[1] * 1000000 + t[2]
  first, records, bytes = next, 0, 0
end
local name = function(n) return string.format('%.0f', n) end
redis.call('HSET', KEYS[2], name(next), ARGV[2] .. ' ' .. ARGV[1])
next, records, bytes = next + 1, records + ARGV[2], bytes + #ARGV[1]
while first < next - 1 and (records > tonumber(ARGV[3]) or bytes > tonumber(ARGV[4])) do
  local old = redis.call('HGET', KEYS[2], name(first))
  if old then
    local count, part = string.match(old, '^(%d+) (.*)$')
    records, bytes = records - count, bytes - #part
    redis.call('HDEL', KEYS[2], name(first))
  end
  first = first + 1
end
redis.call('HSET', KEYS[1], 'first', name(first), 'next', name(next), 'records', name(records), 'bytes', name(bytes))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return 1`

// listSource: KEYS as above. ARGV: the number of the last part that is known, and how many are
// wanted. Returns the number of the last part that is returned, and parts.
const listSource = `#!lua flags=no-writes,allow-oom
local head = redis.call('HMGET', KEYS[1], 'first', 'next')
if not head[1] then return {ARGV[1]} end
local from = math.max(tonumber(ARGV[1]) + 1, tonumber(head[1]))
local to = math.min(from + ARGV[2], tonumber(head[2])) - 1
if to < from then return {ARGV[1]} end
local names = {}
for n = from, to do names[#names + 1] = string.format('%.0f', n) end
local parts = redis.call('HMGET', KEYS[2], unpack(names))
local answer = {names[#names]}
for i = 1, #names do
  if parts[i] then answer[#answer + 1] = string.match(parts[i], ' (.*)$') end
end
return answer`

func newShared(deps Deps) *shared {
	return &shared{
		deps: deps, keys: []string{deps.DB.Key("rh:{recent}"), deps.DB.Key("rp:{recent}")}, // on one node of a Cluster
		add: redisdb.NewScript(addSource), list: redisdb.NewScript(listSource), reading: make(chan struct{}, 1),
	}
}

// put takes an item for Redis. It reports whether it did; if too many wait, it counts instead.
func (s *shared) put(item *Item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outgoing) >= mostOutgoing || s.bytes > mostBehind {
		s.deps.Metrics.unshared.Inc()
		return false
	}
	s.outgoing = append(s.outgoing, item)
	s.bytes += item.size()
	return true
}

// part is the head of a part, in a line of its own before the records.
type part struct {
	Replica string `json:"replica"`
	First   uint64 `json:"first"` // seq of the first record; the others follow
}

// write writes what waits, and removes the oldest beyond most bytes. What Redis does not take at
// once is given up and counted.
func (s *shared) write(ctx context.Context, most int64) {
	s.mu.Lock()
	waiting := s.outgoing
	s.outgoing, s.bytes = nil, 0
	s.mu.Unlock()
	var text bytes.Buffer
	count := 0
	for i, item := range waiting {
		if count == 0 {
			head, _ := json.Marshal(part{item.Replica, item.Seq}) // cannot fail
			text.Write(head)
		}
		text.WriteByte('\n')
		text.Write(item.Record.AppendJSON(nil))
		count++
		if i+1 < len(waiting) && text.Len() < partBytes && waiting[i+1].Seq == item.Seq+1 {
			continue
		}
		if err := s.writePart(ctx, text.Bytes(), count, most); err != nil {
			s.deps.Metrics.unshared.Add(float64(len(waiting) - i - 1 + count))
			return
		}
		text.Reset()
		count = 0
	}
}

func (s *shared) writePart(ctx context.Context, text []byte, count int, most int64) error {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	sealed := s.deps.Key.SealBytes(text, s.keys[1])
	_, err := s.deps.DB.Run(ctx, s.add, s.keys, sealed, count, sharedRecords, most, keptFor.Milliseconds())
	return err
}

// read returns what other replicas have written since the last time. With an error, it returns
// what it could read.
func (s *shared) read(ctx context.Context) (news []*Item, err error) {
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.reading }()
	for {
		parts, err := s.readParts(ctx)
		if err != nil || len(parts) == 0 {
			return news, err
		}
		for _, sealed := range parts {
			text, err := s.deps.Key.OpenBytes([]byte(sealed), s.keys[1])
			if err != nil {
				s.deps.DB.Unopened("recent records")
				continue
			}
			news = append(news, s.items(text)...)
		}
	}
}

// readParts returns the next parts, none at the end.
func (s *shared) readParts(ctx context.Context) (parts []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	got, err := s.deps.DB.Run(ctx, s.list, s.keys, s.last, partsAtOnce)
	if err != nil {
		return nil, err
	}
	answer, _ := got.([]any)
	if len(answer) == 0 {
		return nil, nil
	}
	for _, one := range answer[1:] {
		text, _ := one.(string)
		parts = append(parts, text)
	}
	var last int64
	if text, ok := answer[0].(string); ok {
		if _, err := fmt.Sscan(text, &last); err == nil {
			s.last = max(s.last, last)
		}
	}
	return parts, nil
}

// items reads a part.
func (s *shared) items(text []byte) (items []*Item) {
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	var p part
	if json.Unmarshal(head, &p) != nil || p.Replica == s.deps.Replica {
		return nil
	}
	for line := range bytes.SplitSeq(rest, []byte("\n")) {
		var r record.Record
		if json.Unmarshal(line, &r) == nil {
			items = append(items, newItem(&r, p.Replica, p.First))
		}
		p.First++
	}
	return items
}
