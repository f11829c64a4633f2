package redisdb

import "time"

// SetQuiet sets after how long without a message a Bus sends one.
func (db *DB) SetQuiet(d time.Duration) { db.quiet = d }

// Calm has what failed last be long ago.
func (db *DB) Calm() { db.failed.Store(db.now() - 2*int64(calm)) }
