package expiring

// Bound bounds a file, in bytes.
func Bound(f *File, most int64) { f.most = most }

// Sizes returns how many values a file has, those that have ended, too.
func Sizes(f *File) (n int) {
	tx, err := f.db.Begin(false)
	if err != nil {
		panic(err)
	}
	defer tx.Rollback()
	return tx.Bucket([]byte(endsBucket)).Stats().KeyN
}
