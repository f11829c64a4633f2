package mcp_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestRoom(t *testing.T) {
	m := mcp.NewMemory(100)
	caller := func(name string) mcp.Caller { return mcp.Caller{Issuer: "https://i", Subject: name} }
	a, again, b, c := m.Room(caller("a")), m.Room(caller("a")), m.Room(caller("b")), m.Room(caller("c"))
	nobody := m.Room(mcp.Caller{})
	var none *mcp.Room
	for _, step := range []struct {
		name string
		ok   bool
		want bool
	}{
		{"most of a share", a.Take(40), true},
		{"more than a share, by another request", again.Take(11), false},
		{"the rest of it", again.Take(10), true},
		{"another user's", b.Take(50), true},
		{"when all is taken", c.Take(1), false},
		{"of a call that is not counted", none.Take(1000), true},
	} {
		if step.ok != step.want {
			t.Errorf("%s: %t", step.name, step.ok)
		}
	}
	a.Give(15)
	if !c.Take(15) || c.Take(1) {
		t.Error("what was given back is not there, or more")
	}
	a.Free()
	a.Free()
	if !a.Take(1000) || m.Held() != 75 {
		t.Errorf("%d bytes are held after one was freed, want 75: what comes after it does not count", m.Held())
	}
	a.Give(1000)
	c.Adopt(&b)
	b.Free()
	again.Free()
	if m.Held() != 65 {
		t.Errorf("%d bytes are held, want 65", m.Held())
	}
	none.Give(1)
	none.Adopt(&c)
	none.Free()
	c.Free()
	if m.Held() != 0 || !nobody.Take(100) || nobody.Take(1) {
		t.Error("without authentication there is one user, who has all of it")
	}
	nobody.Free()
}

// TestMemoryKeepsItsBounds whatever is taken and given, and forgets nothing of it.
func TestMemoryKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1000
		m := mcp.NewMemory(most)
		var rooms []*mcp.Room
		var held []int64
		for range 6 {
			r := m.Room(mcp.Caller{Issuer: "i", Subject: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "user")})
			rooms, held = append(rooms, &r), append(held, 0)
		}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			i := rapid.IntRange(0, len(rooms)-1).Draw(t, "room")
			n := rapid.Int64Range(0, 400).Draw(t, "bytes")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0, 1:
				if rooms[i].Take(n) {
					held[i] += n
				}
			default:
				rooms[i].Give(n)
				held[i] -= min(n, held[i])
			}
			var all int64
			for _, n := range held {
				all += n
			}
			if all != m.Held() || all > most {
				t.Fatalf("%d bytes are held, the rooms hold %d", m.Held(), all)
			}
		}
		for _, r := range rooms {
			r.Free()
		}
		if m.Held() != 0 {
			t.Fatalf("%d bytes are left", m.Held())
		}
	})
}

func TestMeter(t *testing.T) {
	const chunk = 32 << 10
	for _, tt := range []struct {
		name         string
		length       int64
		max          int64
		read, refuse int   // chunks, and the one that there is no room for, 0 for none
		held         int64 // in the end
	}{
		{"small", -1, 0, 2, 0, 0},
		{"of a known length", 10 * chunk, 10 * chunk, 10, 0, 10 * chunk},
		{"as its memory grows", -1, 100 * chunk, 3, 0, 12 * chunk},
		{"as far as there is room", -1, 11 * chunk, 12, 12, 11 * chunk},
		{"too large", 10 * chunk, 9 * chunk, 10, 10, 9 * chunk},
		{"longer than was said", chunk, 100 * chunk, 4, 0, 12 * chunk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			memory := mcp.NewMemory(tt.max)
			room := memory.Room(mcp.Caller{})
			m := mcp.Meter{Length: tt.length}
			for i := range tt.read {
				if ok := m.Read(&room, chunk); ok == (i+1 == tt.refuse) {
					t.Fatalf("chunk %d: %t", i+1, ok)
				}
			}
			if memory.Held() != tt.held {
				t.Errorf("%d bytes are held, want %d", memory.Held(), tt.held)
			}
			m.Next(&room, 0, true)
			if memory.Held() != tt.held {
				t.Error("what is kept was given back")
			}
			m = mcp.Meter{}
			m.Read(&room, 0)
			room.Free()
		})
	}
	memory := mcp.NewMemory(1 << 20)
	room := memory.Room(mcp.Caller{})
	var m mcp.Meter
	for range 1000 { // one after the other
		if !m.Read(&room, 200<<10) {
			t.Fatal("what was not kept is not given back")
		}
		m.Next(&room, 100, false)
	}
	if memory.Held() != 0 {
		t.Errorf("%d bytes are held", memory.Held())
	}
}
