package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// recordedTruly compares the records of all replicas, which have ended, with the books of a worker,
// and with what clients were told. lost are the calls that they were told are lost, by key, with the
// id of the call if its stream has said it.
func (s *several) recordedTruly(t *testing.T, w *worker, lost map[string]string) {
	t.Helper()
	type entry struct {
		replica int
		record  map[string]any
	}
	byID, byDigest := make(map[any][]entry), make(map[any]map[any]bool) // ids by the digest of arguments
	for i, r := range s.replicas {
		records, err := mcptest.Records(r.records, "call")
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			byID[record["id"]] = append(byID[record["id"]], entry{i, record})
			if byDigest[record["arguments_digest"]] == nil {
				byDigest[record["arguments_digest"]] = make(map[any]bool)
			}
			byDigest[record["arguments_digest"]][record["id"]] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, runs := range w.runs {
		sum := sha256.Sum256(fmt.Appendf(nil, `{"key":%q}`, key))
		ids := maps.Clone(byDigest["sha256:"+hex.EncodeToString(sum[:])])
		id, isLost := lost[key]
		if id != "" {
			ids = map[any]bool{id: true}
		}
		if key == "shown" { // two requests: one call at the server
			runs++
		}
		if key != "x" && len(ids) != runs {
			t.Errorf("%s: %d calls are recorded, want %d: %v", key, len(ids), runs, ids)
		}
		told := false
		for id := range ids {
			at := make(map[int]bool)
			for _, e := range byID[id] {
				if at[e.replica] {
					t.Errorf("%s: replica %d has recorded %v twice: %v", key, e.replica, id, byID[id])
				}
				at[e.replica] = true
				if said := e.record["executed"]; said == "no" || !isLost && said != "yes" {
					t.Errorf("%s: executed %v: %v", key, said, e.record)
				}
				if e.record["error_code"] == "GH-CALL-LOST" && e.record["outcome"] == "upstream" {
					told = true
				}
			}
		}
		if told != isLost {
			t.Errorf("%s: recorded as lost: %v, want %v: %v", key, told, isLost, ids)
		}
	}
}
