package redisdb

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// scanStep is how many keys Redis looks at in one step.
const scanStep = 1000

// Scan passes the names of all keys of this gateway that begin with begins, each once, without the prefix of the
// gateway. It needs the command SCAN. Errors are those of f, and as of Run.
func (db *DB) Scan(ctx context.Context, begins string, f func(name string) error) error {
	var mu sync.Mutex // guards seen; the nodes of a Cluster are asked side by side
	seen := make(map[string]bool)
	scan := func(ctx context.Context, node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, db.prefix+begins+"*", scanStep).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			for _, key := range keys {
				seen[strings.TrimPrefix(key, db.prefix)] = true
			}
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	began, err := db.now(), error(nil)
	if cluster, ok := db.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	} else {
		err = scan(ctx, db.client)
	}
	if err := db.outcome(ctx, began, err); err != nil {
		return err
	}
	for name := range seen {
		if err := f(name); err != nil {
			return err
		}
	}
	return nil
}
