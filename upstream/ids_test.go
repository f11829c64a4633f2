package upstream

import "testing"

// TestIDs are unique, small, and in no order.
func TestIDs(t *testing.T) {
	var made ids
	made.init()
	seen := make(map[int64]bool)
	rising, last := 0, int64(0)
	for range 1 << 16 {
		id := made.next()
		if id < 1 || id >= 1<<30 || seen[id] {
			t.Fatalf("id %d", id)
		}
		if id > last {
			rising++
		}
		seen[id], last = true, id
	}
	if rising < 1<<14 || rising > 3<<14 {
		t.Errorf("%d of %d ids are larger than the one before", rising, 1<<16)
	}
	var others ids
	others.init()
	for range 1 << 10 {
		if made.next() == others.next() {
			t.Error("another upstream has the same ids")
		}
	}
}
