package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterEnabled = "cluster-enabled"
	clusterNodes   = 3
	clusterSlots   = 16384
	// moveTime bounds how long one node may take to send keys to another, in milliseconds.
	moveTime = 5000
)

// Cluster is a Redis Cluster for one test: three masters, each with a third of the slots.
type Cluster struct{ Nodes []*Server }

// StartCluster runs a Cluster until the test ends. It sends the commands of redis-cli
// --cluster create.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	for i := range clusterNodes {
		node := Start(t, clusterEnabled, "yes")
		c.Nodes = append(c.Nodes, node)
		do(t, node, "CLUSTER", "ADDSLOTSRANGE", firstSlot(i), firstSlot(i+1)-1)
		do(t, node, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i > 0 {
			host, port, _ := net.SplitHostPort(node.Addr)
			do(t, c.Nodes[0], "CLUSTER", "MEET", host, port, node.bus)
		}
	}
	for _, node := range c.Nodes {
		client := node.Client()
		defer client.Close()
		eventually(t, "the Cluster comes up", func(ctx context.Context) bool {
			info, err := client.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", clusterNodes))
		})
	}
	return c
}

// firstSlot returns the first slot of a node.
func firstSlot(node int) int { return node * clusterSlots / clusterNodes }

// do sends one command to a server and fails the test on an error.
func do(t testing.TB, s *Server, args ...any) string {
	t.Helper()
	client := s.Client()
	defer client.Close()
	got, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("redistest: %v: %v", args, err)
	}
	text, _ := got.(string)
	return text
}

// URL returns the address in the form of sessions.redis.url. It names one node; clients
// find the others.
func (c *Cluster) URL() string { return "redis+cluster://" + c.Nodes[0].Addr }

// Client returns a new client. The test must close it.
func (c *Cluster) Client() *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr}, DisableIdentity: true})
}

// Advance moves the time of all nodes forward without waiting.
func (c *Cluster) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	for _, node := range c.Nodes {
		node.Advance(t, d)
	}
}

// Migration is a slot that moves from one node to another.
type Migration struct {
	slot     int64
	from, to *Server
	toID     string
	nodes    []*Server
}

// Migrate begins to move the slot of a key, which must not have moved before, to another
// node. Until Finish, existing keys are at the old node, and new keys go to the other.
func (c *Cluster) Migrate(t testing.TB, key string) *Migration {
	t.Helper()
	client := c.Nodes[0].Client()
	defer client.Close()
	slot, err := client.ClusterKeySlot(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for firstSlot(at+1) <= int(slot) {
		at++
	}
	m := &Migration{slot: slot, from: c.Nodes[at], to: c.Nodes[(at+1)%clusterNodes], nodes: c.Nodes}
	m.toID = do(t, m.to, "CLUSTER", "MYID")
	do(t, m.to, "CLUSTER", "SETSLOT", slot, "IMPORTING", do(t, m.from, "CLUSTER", "MYID"))
	do(t, m.from, "CLUSTER", "SETSLOT", slot, "MIGRATING", m.toID)
	return m
}

// To returns the node that the slot moves to.
func (m *Migration) To() *Server { return m.to }

// Finish moves the keys, then the slot.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	client := m.from.Client()
	defer client.Close()
	keys, err := client.ClusterGetKeysInSlot(context.Background(), int(m.slot), 10_000).Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) > 0 {
		host, port, _ := net.SplitHostPort(m.to.Addr)
		args := []any{"MIGRATE", host, port, "", 0, moveTime, "KEYS"}
		for _, key := range keys {
			args = append(args, key)
		}
		do(t, m.from, args...)
	}
	do(t, m.to, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID)
	for _, node := range m.nodes {
		do(t, node, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID)
	}
}
