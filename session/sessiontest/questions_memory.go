package sessiontest

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/session"
)

// maxQuestions is as many as Redis keeps.
const maxQuestions = 100

// memoryQuestion is one that waits at a replica; without a value it was inherited, and
// settled.
type memoryQuestion struct{ replica, value string }

// ofPlace returns what waits at a place, and what ends the step.
func (r *MemoryReplica) ofPlace(at session.Place) (map[string]memoryQuestion, func(), error) {
	_, end, err := r.begin(at)
	if err != nil {
		return nil, nil, err
	}
	all := r.all.questions[at]
	if all == nil {
		all = make(map[string]memoryQuestion)
		r.all.questions[at] = all
	}
	return all, end, nil
}

// Ask is RedisBindings.Ask, and so on.
func (r *MemoryReplica) Ask(_ context.Context, at session.Place, key, value string) error {
	all, end, err := r.ofPlace(at)
	if err != nil {
		return err
	}
	defer end()
	for key, q := range all {
		if len(all) >= maxQuestions && q.value == "" {
			delete(all, key)
		}
	}
	if len(all) < maxQuestions {
		all[key] = memoryQuestion{r.name, value}
	}
	return nil
}

// Answered forgets a question.
func (r *MemoryReplica) Answered(_ context.Context, at session.Place, key string) (bool, error) {
	all, end, err := r.ofPlace(at)
	if err != nil {
		return false, err
	}
	defer end()
	if q, kept := all[key]; kept && q.replica != r.name {
		return false, nil
	}
	delete(all, key)
	return true, nil
}

// Asked returns the questions of others.
func (r *MemoryReplica) Asked(_ context.Context, at session.Place) (out []session.Question, err error) {
	all, end, err := r.ofPlace(at)
	if err != nil {
		return nil, err
	}
	defer end()
	for key, q := range all {
		if q.replica != r.name && q.value != "" {
			out = append(out, session.Question{Key: key, Replica: q.replica, Value: q.value})
		}
	}
	return out, nil
}

// Inherit takes a question of another replica.
func (r *MemoryReplica) Inherit(_ context.Context, at session.Place, q session.Question) (bool, error) {
	all, end, err := r.ofPlace(at)
	if err != nil {
		return false, err
	}
	defer end()
	kept := all[q.Key]
	if kept.replica != q.Replica || kept.value == "" {
		return false, nil
	}
	all[q.Key] = memoryQuestion{r.name, kept.value}
	return true, nil
}

// Settle says that a question was answered that was inherited.
func (r *MemoryReplica) Settle(_ context.Context, at session.Place, key string) error {
	all, end, err := r.ofPlace(at)
	if err != nil {
		return err
	}
	defer end()
	if all[key].replica == r.name {
		all[key] = memoryQuestion{r.name, ""}
	}
	return nil
}
