package redisdb

// Calm has what failed last be long ago.
func (db *DB) Calm() { db.failed.Store(db.now() - 2*int64(calm)) }
