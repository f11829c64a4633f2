package stateful

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// numbered parks calls that tests know by their numbers.
type numbered struct{ *parking }

// newNumbered returns an empty parking. given returns the numbers of calls that were given up since it was
// called last.
func newNumbered() (calls numbered, given func() []int) {
	all := make(chan int, 10)
	given = func() (calls []int) {
		for len(all) > 0 {
			calls = append(calls, <-all)
		}
		slices.Sort(calls)
		return calls
	}
	return numbered{newParking(func(x *exchange, _ string) { all <- int(x.number) })}, given
}

func (n numbered) parks(handle string, user string, call int) error {
	begin := func() (*exchange, error) { return &exchange{number: int64(call)}, nil }
	_, err := n.park(handle, user, 2, time.Minute, begin)
	return err
}

// drops removes the call at a handle if it has this number.
func (n numbered) drops(handle string, call int) bool {
	_, ok := n.take(handle, func(x *exchange) bool { return x.number == int64(call) })
	return ok
}

func TestACallIsTakenOnce(t *testing.T) {
	calls, _ := newNumbered()
	if err := calls.parks("a", "ann", 1); err != nil {
		t.Fatal(err)
	}
	if _, ok := calls.take("a", func(x *exchange) bool { return x.number == 2 }); ok {
		t.Error("taken by somebody whose call it is not")
	}
	if x, ok := calls.find("a"); !ok || x.number != 1 {
		t.Errorf("found %+v, %t", x, ok)
	}
	if calls.drops("a", 2) || !calls.drops("a", 1) || calls.drops("a", 1) {
		t.Error("not removed once")
	}
	if _, ok := calls.find("a"); ok || calls.count() != 0 {
		t.Error("it is still there")
	}
}

func TestOneUserHasNotAllPlaces(t *testing.T) {
	calls, _ := newNumbered()
	for i, tt := range []struct {
		user string
		want error
	}{{"ann", nil}, {"ann", nil}, {"ann", errParkingFull}, {"bob", nil}} {
		if err := calls.parks(strconv.Itoa(i), tt.user, i); !errors.Is(err, tt.want) {
			t.Errorf("call %d of %s: %v, want %v", i, tt.user, err, tt.want)
		}
	}
	calls.drops("0", 0)
	if err := calls.parks("4", "ann", 4); err != nil {
		t.Errorf("after one was taken: %v", err)
	}
	calls.dropAll("why", func(*exchange) bool { return true })
	if len(calls.users) != 0 {
		t.Errorf("%d users are known of no call", len(calls.users))
	}
}

func TestWhatCannotBeginIsNotParked(t *testing.T) {
	calls, _ := newNumbered()
	broken := errors.New("broken")
	for range 3 { // more than a user may have
		begin := func() (*exchange, error) { return nil, broken }
		if _, err := calls.park("a", "ann", 2, time.Minute, begin); !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
	if calls.count() != 0 {
		t.Error("it is parked")
	}
}

// TestParkingTime: no call waits for ever, and a call that is parked again gets its full time
// again.
func TestParkingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, given := newNumbered()
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
		calls.drops("taken", 0)
		if x, err := calls.park("renewed", "renewed", 2, time.Minute, nil); err != nil || x.number != 2 {
			t.Errorf("%+v, %v; want the one that is there", x, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := given(); !slices.Equal(got, []int{1}) {
			t.Errorf("%d are given up, want the one without an answer", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := given(); !slices.Equal(got, []int{2}) || calls.count() != 0 {
			t.Errorf("%d are given up in the end, %d are left", got, calls.count())
		}
	})
}

func TestParkingCloses(t *testing.T) {
	calls, given := newNumbered()
	for i := range 4 {
		if err := calls.parks(strconv.Itoa(i), strconv.Itoa(i), i); err != nil {
			t.Fatal(err)
		}
	}
	calls.dropAll("why", func(x *exchange) bool { return x.number == 3 })
	if got := given(); !slices.Equal(got, []int{3}) {
		t.Errorf("%d are given up, want one", got)
	}
	calls.close()
	if got := given(); !slices.Equal(got, []int{0, 1, 2}) || calls.count() != 0 {
		t.Errorf("%d are given up, %d are left", got, calls.count())
	}
	if err := calls.parks("a", "ann", 5); !errors.Is(err, errParkingClosed) {
		t.Errorf("after the end: %v", err)
	}
	calls.close()
}
