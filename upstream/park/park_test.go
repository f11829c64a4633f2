package park

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// table parks numbers. given returns the numbers given up since its last call.
func table() (t *Table[int], given func() []int) {
	all := make(chan int, 10)
	given = func() (calls []int) {
		for len(all) > 0 {
			calls = append(calls, <-all)
		}
		slices.Sort(calls)
		return calls
	}
	return New(func(call int, _ string) { all <- call }), given
}

func (t *Table[C]) parks(handle string, user string, call C) error {
	_, err := t.Park(handle, user, 2, time.Minute, func() (C, error) { return call, nil })
	return err
}

func TestACallIsTakenOnce(t *testing.T) {
	calls, _ := table()
	if err := calls.parks("a", "ann", 1); err != nil {
		t.Fatal(err)
	}
	if _, ok := calls.Take("a", func(call int) bool { return call == 2 }); ok {
		t.Error("taken by somebody whose call it is not")
	}
	if call, ok := calls.Find("a"); !ok || call != 1 {
		t.Errorf("found %d, %t", call, ok)
	}
	if calls.Remove("a", 2) || !calls.Remove("a", 1) || calls.Remove("a", 1) {
		t.Error("not removed once")
	}
	if _, ok := calls.Find("a"); ok || calls.Len() != 0 {
		t.Error("it is still there")
	}
}

func TestOneUserHasNotAllPlaces(t *testing.T) {
	calls, _ := table()
	for i, tt := range []struct {
		user string
		want error
	}{{"ann", nil}, {"ann", nil}, {"ann", ErrFull}, {"bob", nil}} {
		if err := calls.parks(strconv.Itoa(i), tt.user, i); !errors.Is(err, tt.want) {
			t.Errorf("call %d of %s: %v, want %v", i, tt.user, err, tt.want)
		}
	}
	calls.Remove("0", 0)
	if err := calls.parks("4", "ann", 4); err != nil {
		t.Errorf("after one was taken: %v", err)
	}
	calls.GiveUp("why", func(int) bool { return true })
	if len(calls.users) != 0 {
		t.Errorf("%d users are known of no call", len(calls.users))
	}
}

func TestWhatCannotBeginIsNotParked(t *testing.T) {
	calls, _ := table()
	broken := errors.New("broken")
	for range 3 { // more than a user may have
		if _, err := calls.Park("a", "ann", 2, time.Minute, func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
	if calls.Len() != 0 {
		t.Error("it is parked")
	}
}

// TestTime: no call waits for ever, and a call that is parked again gets its full time
// again.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, given := table()
		for i, handle := range []string{"taken", "left", "renewed"} {
			if err := calls.parks(handle, handle, i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if early := given(); early != nil {
			t.Errorf("%d are given up before their time", early)
		}
		calls.Remove("taken", 0)
		if call, err := calls.Park("renewed", "renewed", 2, time.Minute, nil); call != 2 || err != nil {
			t.Errorf("%d, %v; want the one that is there", call, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := given(); !slices.Equal(got, []int{1}) {
			t.Errorf("%d are given up, want the one that nobody came for", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := given(); !slices.Equal(got, []int{2}) || calls.Len() != 0 {
			t.Errorf("%d are given up in the end, %d are left", got, calls.Len())
		}
	})
}

func TestClose(t *testing.T) {
	calls, given := table()
	for i := range 4 {
		if err := calls.parks(strconv.Itoa(i), strconv.Itoa(i), i); err != nil {
			t.Fatal(err)
		}
	}
	calls.GiveUp("why", func(call int) bool { return call == 3 })
	if got := given(); !slices.Equal(got, []int{3}) {
		t.Errorf("%d are given up, want one", got)
	}
	calls.Close()
	if got := given(); !slices.Equal(got, []int{0, 1, 2}) || calls.Len() != 0 {
		t.Errorf("%d are given up, %d are left", got, calls.Len())
	}
	if err := calls.parks("a", "ann", 5); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	calls.Close()
}
