package redisdb

// Calm moves the last failure far into the past.
func (db *DB) Calm() { db.failed.Store(db.now() - 2*int64(calm)) }
