package redisdb

import "time"

// SetQuiet sets after how long without a message a Bus sends one.
func (db *DB) SetQuiet(d time.Duration) { db.quiet = d }
