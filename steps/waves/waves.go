// Package waves divides a rollout into waves: it counts the Nodes that have begun and ended, and says which may begin.
package waves

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits are what a plan says of waves.
type Limits struct {
	Sizes []int         // Nodes of each wave; the last size repeats. None = one wave has all
	Pause time.Duration // between the end of a wave and the next
}

// size is how many Nodes a wave has, from 0.
func (l Limits) size(wave int) int { return l.Sizes[min(wave, len(l.Sizes)-1)] }

// State is how far a rollout is. The zero value is one of which no Node has begun.
type State struct {
	Wave   int       `json:"wave"`             // from 0
	Open   []string  `json:"open,omitempty"`   // Nodes that have begun and not ended; a run that died leaves them so
	Done   []string  `json:"done,omitempty"`   // Nodes of the wave that ended well
	Failed []string  `json:"failed,omitempty"` // Nodes of the wave that failed
	Ended  time.Time `json:"ended,omitzero"`   // when the last of them ended
}

// Begin lets a Node begin, unless it waits for something, or the next wave may not begin at all because Nodes of the
// one before are out of service. out returns which of some Nodes are.
func (s *State) Begin(l Limits, node string, now time.Time, out func([]string) ([]string, error)) (waits, why string,
	err error) {
	if len(l.Sizes) == 0 || slices.Contains(s.Open, node) {
		return "", "", nil
	}
	again := slices.Contains(s.Done, node) || slices.Contains(s.Failed, node)
	s.drop(node)
	if again || len(s.Open)+len(s.Done)+len(s.Failed) < l.size(s.Wave) {
		s.Open = append(s.Open, node)
		return "", "", nil
	}
	next := fmt.Sprintf("wave %d of the rollout begins ", s.Wave+2)
	if len(s.Open) > 0 {
		return next + "after " + strings.Join(s.Open, ", "), "", nil
	}
	if at := s.Ended.Add(l.Pause); now.Before(at) {
		return fmt.Sprintf("%sat %s, %s after wave %d", next, at.UTC().Format("15:04:05Z"), l.Pause, s.Wave+1), "", nil
	}
	bad, err := out(s.Done)
	if err != nil {
		return "", "", err
	}
	if len(bad) > 0 {
		why = fmt.Sprintf("the rollout stopped after wave %d: out of service: %s", s.Wave+1, strings.Join(bad, ", "))
		return "", why, nil
	}
	*s = State{Wave: s.Wave + 1, Open: []string{node}}
	return "", "", nil
}

// End notes how a Node that had begun has ended.
func (s *State) End(node string, failed bool, now time.Time) {
	if !slices.Contains(s.Open, node) {
		return // of another rollout
	}
	s.drop(node)
	if failed {
		s.Failed = append(s.Failed, node)
	} else {
		s.Done = append(s.Done, node)
	}
	s.Ended = now
}

// GiveUp is for a Node that was let begin, and did not.
func (s *State) GiveUp(node string) { s.drop(node) }

func (s *State) drop(node string) {
	for _, list := range []*[]string{&s.Open, &s.Done, &s.Failed} {
		*list = slices.DeleteFunc(*list, func(n string) bool { return n == node })
	}
}
