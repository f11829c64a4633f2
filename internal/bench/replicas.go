package main

import (
	"context"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// Targets for the cost of a stateful call, relative to a single gateway: at the replica
// that owns its session, and at another replica, the CPU of both replicas together.
const (
	ownerTarget     = 1.05
	forwardedTarget = 2.0
)

// addReplicas starts two replicas on one Redis, to be compared with a single gateway.
func (r *rigged) addReplicas(ctx context.Context, binary, upstream string, o options) error {
	alone, err := r.startGateway(ctx, binary, upstream, "", o, rig.GatewayConfig{})
	if err != nil {
		return err
	}
	redis, err := r.startRedis(ctx)
	if err != nil {
		return err
	}
	replicas := make([]rig.Gateway, 2)
	for i := range replicas {
		sections, err := redis.replica("")
		if err != nil {
			return err
		}
		if replicas[i], err = r.startGateway(ctx, binary, upstream, sections, o, rig.GatewayConfig{}); err != nil {
			return err
		}
	}
	owner, forwarded := named("owner", replicas[0]), named("forwarded", replicas[1])
	owner.most, forwarded.most = ownerTarget, forwardedTarget
	forwarded.begin = owner.url
	forwarded.processes = append(forwarded.processes, owner.processes...)
	r.beside = "alone"
	r.targets = []target{named(r.beside, alone), owner, forwarded}
	return nil
}

// redisAddress is that of the Redis of some replicas.
type redisAddress string

func (r *rigged) startRedis(ctx context.Context) (redisAddress, error) {
	address, err := mcptest.FreeAddress("127.0.0.1")
	if err != nil {
		return "", err
	}
	redis, err := rig.StartRedis(ctx, address)
	if err != nil {
		return "", err
	}
	r.started = append(r.started, redis)
	return redisAddress(address), nil
}

// replica returns the sections of one more replica. limits are members of its section sessions, each
// with a comma behind it.
func (a redisAddress) replica(limits string) (sections string, err error) {
	link, err := mcptest.FreeAddress("127.0.0.1")
	return fmt.Sprintf("sessions: {%sstore: redis, redis: {url: \"redis://%s\"}, key: 0123456789abcdef0123456789abcdef}\n"+
		"replicas: {listen: %q, advertise: %q}\n", limits, a, link, link), err
}
