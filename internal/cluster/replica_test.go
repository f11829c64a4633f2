package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// replicaVariable is the environment variable that turns the test program into a replica.
const replicaVariable = "GATEHOUSE_TEST_REPLICA"

// settledPath is where a replica reports whether it would notice that another one has gone.
const settledPath = "/settled"

// orders are the instructions for such a process, in the variable.
type orders struct {
	Redis, Advertise string
	Lease            time.Duration
}

// report is the line that the process writes when it is ready.
type report struct{ Name, Link, Public string }

// counter is a replica's answer: how often the home was asked for. The owner counts in memory,
// and writes the count for its successor.
type counter struct {
	Replica string
	Count   int
	// Refused says that the fence refused the write: another replica owns the home.
	Refused bool `json:",omitempty"`
	// Torn says that the fence allowed the write, but that the stored count was not the one in
	// memory.
	Torn bool `json:",omitempty"`
}

// countSource writes a count under the fence. It returns 1, or 0 if the fence refuses, or -1
// if the stored count is not the previous one.
const countSource = `#!lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[2] then return -1 end
redis.call('SET', KEYS[2], ARGV[3])
return 1`

// readCountSource reads the count.
const readCountSource = "#!lua\nreturn tonumber(redis.call('GET', KEYS[1]) or '0')"

// counters are the homes of a replica.
type counters struct {
	db          *redisdb.DB
	count, read *redisdb.Script

	mu    sync.Mutex // guards homes
	homes map[string]*tally
}

// tally is the count of one home.
type tally struct {
	mu    sync.Mutex // held while the home serves a request
	token string
	count int
}

func (c *counters) home(key string) *tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.homes[key] == nil {
		c.homes[key] = &tally{}
	}
	return c.homes[key]
}

// serve counts a request. If the path ends in /hang, it waits until the client leaves.
func (c *counters) serve(w http.ResponseWriter, r *http.Request, o Owner) {
	if r.URL.Query().Has("hang") {
		fmt.Fprintln(os.Stderr, "hanging")
		<-r.Context().Done()
		return
	}
	key := homeOf(r).Key()
	x := c.home(key)
	x.mu.Lock()
	defer x.mu.Unlock()
	at := c.db.Key("c:{" + homeOf(r).User + "}:" + homeOf(r).ID)
	if x.token != o.Epoch {
		got, err := c.db.Run(r.Context(), c.read, []string{at})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInsufficientStorage)
			return
		}
		n, _ := got.(int64)
		x.token, x.count = o.Epoch, int(n)
	}
	got, err := c.db.Run(r.Context(), c.count, []string{homeKey(c.db, homeOf(r)), at}, o.Epoch, x.count, x.count+1)
	if err != nil {
		x.token = "" // it is unknown whether it was written
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
		return
	}
	answer := counter{Replica: o.Replica, Refused: got == int64(0), Torn: got == int64(-1)}
	if got == int64(1) {
		x.count++
	}
	answer.Count = x.count
	_ = json.NewEncoder(w).Encode(answer)
}

func (m *members) isSettled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled()
}

// runReplica runs the process: a replica whose homes are counters. It ends with its standard
// input.
func runReplica() error {
	var told orders
	if err := json.Unmarshal([]byte(os.Getenv(replicaVariable)), &told); err != nil {
		return err
	}
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret("redis://" + told.Redis)}, nil, nil)
	if err != nil {
		return err
	}
	homes := &counters{db: db, count: redisdb.NewScript(countSource), read: redisdb.NewScript(readCountSource),
		homes: make(map[string]*tally)}
	t := shortTimes()
	t.lease = told.Lease
	cluster, err := newCluster(Config{Listen: "127.0.0.1:0", Advertise: told.Advertise}, Deps{
		DB: db, Key: []byte(testKey), Idle: testIdle,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, t, tcp{})
	if err != nil {
		return err
	}
	if err != nil {
		return err
	}
	d := &door{cluster: cluster, serve: homes.serve, held: make(map[string]Owner)}
	cluster.Start(backDoor{d})
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", d)
	mux.HandleFunc(settledPath, func(w http.ResponseWriter, _ *http.Request) {
		if !cluster.members.isSettled() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(counter{})
	})
	server := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(public) }()
	err = json.NewEncoder(os.Stdout).Encode(report{cluster.Self(), cluster.link.listener.Addr().String(),
		public.Addr().String()})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
	server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cluster.Close(ctx)
	return db.Close()
}
