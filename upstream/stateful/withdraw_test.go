package stateful

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestAWithdrawnQuestionGivesItsRoomBack: a server that asks and withdraws its question,
// again and again in one long call, takes nothing from the user's other calls.
func TestAWithdrawnQuestionGivesItsRoomBack(t *testing.T) {
	memory := mcp.NewMemory(1 << 20)
	x := &exchange{room: memory.Outside("crm", "ann")}
	q := question{id: mcp.Raw("7"), request: mcp.InputRequest{Method: mcp.MethodElicit, Params: make(mcp.Raw, 1000)}}
	if !x.room.Take(int64(len(q.request.Params))) {
		t.Fatal("no room")
	}
	x.open = []question{q}
	x.withdraw(mcp.Raw("7"))
	if held := memory.Held(); held != 0 || len(x.open) != 0 {
		t.Errorf("%d bytes are held, %d questions open", held, len(x.open))
	}
}
