package gateway

import (
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// memoryShare is which part of the process's memory large messages may hold by default.
// While they are passed on there are up to four copies of one.
const memoryShare = 8

// inFlight is http.max_in_flight_bytes, or its default under a memory limit (GOMEMLIMIT)
// in bytes, which is the largest integer where there is none.
func (c Config) inFlight(limit int64) int64 {
	if c.HTTP.MaxInFlightBytes != 0 {
		return c.HTTP.MaxInFlightBytes
	}
	least := 2 * max(c.HTTP.MaxRequestBytes, wire.DefaultMaxRequest)
	return max(min(front.DefaultInFlight, limit/memoryShare), least)
}

// memoryDoubts tells of upstreams whose largest answers are more than one user may hold.
func (c Config) memoryDoubts(limit int64) (doubts []error) {
	share := c.inFlight(limit) / 2
	for i, u := range c.Upstreams {
		most := u.Limits.ResultBytes
		if most == 0 {
			most = wire.DefaultMaxResult
		}
		if enabled(u) && u.Skills == "" && most > share {
			doubts = append(doubts, fmt.Errorf("%s: limits.result_bytes: %d is more than half of http.max_in_flight_bytes, which is what one user may hold: answers of more than %d bytes are refused",
				upstreamPath(i, u), most, share))
		}
	}
	return doubts
}
