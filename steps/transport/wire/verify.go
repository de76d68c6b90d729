package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/collect"
	"nodejoin/steps/doctor"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
)

// A reply is a machine's word. What follows holds it against the request, so that a machine speaks of the steps
// that it was asked about, and of nothing else. That it lies about these is its own affair.

// longestValue bounds an output, in bytes.
const longestValue = 4 << 10

// codes are those of errors on a machine. The others are of the controller and of the cluster: they decide how a
// run goes on, and its exit code.
var codes = []steps.Code{steps.CodeFailed, steps.CodeNotConverged, steps.CodeTimeout, steps.CodeDigest,
	steps.CodeBlobMissing,
	steps.CodeNoSpace, steps.CodeDenied, steps.CodeUnsupported, steps.CodeUnreachable, steps.CodeInvalid,
	steps.CodeInterrupted, steps.CodeOtherVersion}

// VerifyError says what is wrong with an error of a machine; nil is none.
func VerifyError(e *steps.Error) error {
	switch {
	case e == nil:
		return nil
	case !slices.Contains(codes, e.Code):
		return fmt.Errorf("an error of the kind %q, which no machine gives", e.Code)
	case e.Summary == "":
		return fmt.Errorf("an error without a summary")
	case len(e.Summary)+len(e.Detail)+len(e.Remedy) > perStep:
		return fmt.Errorf("an error of %d bytes", len(e.Summary)+len(e.Detail)+len(e.Remedy))
	}
	return nil
}

func verifyCheck(req executor.Request, r executor.CheckReply) error {
	if err := verifyFacts(r.Facts); err != nil {
		return err
	}
	if len(r.Results) != len(req.Steps) {
		return fmt.Errorf("%d results for %d steps", len(r.Results), len(req.Steps))
	}
	for i, res := range r.Results {
		if res.ID != req.Steps[i].ID {
			return fmt.Errorf("a result for %q where %q was asked", res.ID, req.Steps[i].ID)
		}
		if err := verifyResult(req.Steps[i], res); err != nil {
			return fmt.Errorf("step %s: %w", res.ID, err)
		}
	}
	if !req.Whole && len(r.Removals.Items) > 0 {
		return errors.New("removals, which were not asked for")
	}
	if err := verifyRemovals(r.Removals.Items); err != nil {
		return err
	}
	if err := verifyCount(int64(min(r.Removals.Steps, r.Removals.Of-r.Removals.Steps))); err != nil {
		return err
	}
	if n := r.Last; n != nil && !slices.Contains([]string{"done", "failed", "interrupted"}, n.Result) {
		return fmt.Errorf("a last run with the result %q", n.Result)
	}
	return verifyCount(r.Mutations)
}

func verifyResult(s steps.Spec, r steps.Result) error {
	k, _ := kinds.Lookup(s.Kind)
	if err := VerifyError(r.Err); err != nil {
		return err
	}
	if err := verifyChange(r.Change); err != nil {
		return err
	}
	if r.Change.Reboot != nil && !k.Reboots {
		return fmt.Errorf("a reboot, which a step of the kind %q does not ask for", s.Kind)
	}
	if len(r.Change.Findings) > 0 && !k.Finds {
		return fmt.Errorf("findings of a step of the kind %q", s.Kind)
	}
	for _, f := range r.Change.Findings {
		if err := verifyFinding(f); err != nil {
			return err
		}
	}
	for name, value := range r.Change.Outputs {
		if err := verifyOutput(s, name, value); err != nil {
			return err
		}
	}
	return nil
}

func verifyChange(c steps.Change) error {
	if !slices.Contains(actions, c.Action) {
		return fmt.Errorf("an unknown action %q", c.Action)
	}
	return nil
}

func verifyFinding(f steps.Finding) error {
	if !slices.Contains([]steps.Severity{steps.SeverityError, steps.SeverityWarning, steps.SeverityNote}, f.Severity) {
		return fmt.Errorf("a finding of the severity %q", f.Severity)
	}
	if !plainName(f.ID) {
		return fmt.Errorf("a finding with the id %q", f.ID)
	}
	return nil
}

// plainName reports whether a name is like those that nodejoin gives: [a-z0-9_-]+.
func plainName(s string) bool {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' }
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, odd)
}

// verifyOutput holds one output against what the kind of the step gives.
func verifyOutput(s steps.Spec, name, value string) error {
	k, _ := kinds.Lookup(s.Kind)
	if !slices.Contains(k.Outputs, name) {
		return fmt.Errorf("an output %q, which a step of the kind %q does not have", name, s.Kind)
	}
	if len(value) > longestValue {
		return fmt.Errorf("the output %s has %d bytes", name, len(value))
	}
	if name == "management_ip" || name == "address" { // of hns_network, hns_network_ready and source_vip
		if _, err := netip.ParseAddr(value); err != nil && value != "" {
			return fmt.Errorf("the output %s is %q, not an address", name, value)
		}
	}
	return nil
}

func verifyApply(req executor.Request, r executor.ApplyReply) error {
	if err := verifyEnd(req, r.Err); err != nil {
		return err
	}
	if (r.Failed == "") != (r.Err == nil) {
		return fmt.Errorf("a failed step %q with the error %q", r.Failed, fmt.Sprint(r.Err))
	}
	if (req.Lock == nil) != (r.Lock == nil) {
		return errors.New("the lock was asked for, and the reply says nothing of it, or the other way round")
	}
	if r.Noted && (req.Note == nil || r.Err != nil) {
		return errors.New("a run is noted that has not ended")
	}
	if r.Lock != nil && *r.Lock != (steps.LockReply{}) {
		if len(r.Changed)+len(r.Unchanged)+len(r.Values)+len(r.Sensitive) > 0 || r.Failed != "" || r.Noted {
			return errors.New("steps are done, though the machine was not to be changed")
		}
		return nil
	}
	// Steps are taken in their order, up to the one that failed.
	done := slices.Concat(r.Changed, r.Unchanged)
	if r.Failed != "" {
		done = append(done, r.Failed)
	} else if len(done) != len(req.Steps) {
		return fmt.Errorf("%d of %d steps are done, and none failed", len(done), len(req.Steps))
	}
	if len(done) > len(req.Steps) {
		return fmt.Errorf("%d steps are done of %d", len(done), len(req.Steps))
	}
	ran := req.Steps[:len(done)]
	for i, s := range ran {
		if n := count(done, s.ID); n != 1 {
			return fmt.Errorf("step %s is done %d times of %d steps", s.ID, n, len(done))
		}
		if r.Failed != "" && (r.Failed == s.ID) != (i == len(ran)-1) {
			return fmt.Errorf("step %s failed, which is not the last that ran", r.Failed)
		}
	}
	for full, value := range r.Values {
		id, name, _ := strings.Cut(full, ".")
		i := slices.IndexFunc(ran, func(s steps.Spec) bool { return s.ID == id })
		if i < 0 {
			return fmt.Errorf("a value %q, of no step that was sent", full)
		}
		if err := verifyOutput(ran[i], name, value); err != nil {
			return fmt.Errorf("step %s: %w", id, err)
		}
	}
	for _, full := range r.Sensitive {
		if _, ok := r.Values[full]; !ok {
			return fmt.Errorf("a sensitive value %q that is not given", full)
		}
	}
	return verifyCount(r.Mutations)
}

func count(list []string, s string) (n int) {
	for _, have := range list {
		if have == s {
			n++
		}
	}
	return n
}

func verifyCount(n int64) error {
	if n < 0 {
		return fmt.Errorf("%d changes", n)
	}
	return nil
}

// verifyFailure checks what a reply says of the part that ended a run, "" for none.
func verifyFailure(failed string, err *steps.Error) error {
	if failed != "" && err == nil {
		return fmt.Errorf("a failed part %q without an error", failed)
	}
	return VerifyError(err)
}

// verifyItem checks the key and the error of an item of the record, which a reply names once.
func verifyItem(seen map[record.Key]bool, key record.Key, e *steps.Error) error {
	switch {
	case !knownPrefix(key.Prefix):
		return fmt.Errorf("an item %q of no known sort", key)
	case seen[key]:
		return fmt.Errorf("the item %q twice", key)
	}
	seen[key] = true
	if err := VerifyError(e); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func verifyRollback(_ executor.RollbackRequest, r executor.RollbackReply) error {
	if err := verifyFailure(r.Failed, r.Err); err != nil {
		return err
	}
	return verifyCount(r.Mutations)
}

func verifyRemove(req executor.RemoveRequest, r executor.RemoveReply) error {
	if r.Failed != "" && r.Err == nil {
		return fmt.Errorf("a failed part %q without an error", r.Failed)
	}
	if err := verifyEnd(req.Request, r.Err); err != nil {
		return err
	}
	if err := verifyRemovals(r.Removed); err != nil {
		return err
	}
	if err := verifyRemovals(r.Left); err != nil {
		return err
	}
	return verifyCount(r.Mutations)
}

// verifyEnd checks the error that ended a request, which may be a pause if the request may be paused.
func verifyEnd(req executor.Request, err *steps.Error) error {
	if err != nil && req.Pausable && err.Code == steps.CodePaused {
		paused := *err
		paused.Code = steps.CodeInterrupted
		err = &paused
	}
	return VerifyError(err)
}

func verifyRemovals(items []executor.Removal) error {
	seen := map[record.Key]bool{}
	for _, item := range items {
		if err := verifyItem(seen, item.Key, item.Err); err != nil {
			return err
		}
		switch a := item.Change.Action; a {
		case steps.ActionNone, steps.ActionRemove, steps.ActionForget:
		default:
			return fmt.Errorf("%s: a removal with the action %q", item.Key, a)
		}
	}
	return nil
}

func verifyLeave(_ executor.LeaveRequest, r executor.LeaveReply) error {
	if err := verifyFacts(r.Facts); err != nil {
		return err
	}
	if r.Failed == "" && r.Err != nil {
		return fmt.Errorf("the error %q of no part", r.Err.Error())
	}
	if err := verifyFailure(r.Failed, r.Err); err != nil {
		return err
	}
	seen := map[record.Key]bool{}
	for _, item := range r.Items {
		if err := verifyItem(seen, item.Key, item.Err); err != nil {
			return err
		}
		if err := verifyChange(item.Change); err != nil {
			return fmt.Errorf("%s: %w", item.Key, err)
		}
	}
	return verifyCount(r.Mutations)
}

func verifyCollect(req collect.CollectRequest, r collect.CollectReply) error {
	if most := 512 + 16*len(req.Steps); len(r.Parts) > most {
		return fmt.Errorf("%d parts, more than %d", len(r.Parts), most)
	}
	for _, p := range r.Parts {
		if len(p.Name) > 4<<10 || strings.HasPrefix(p.Name, "cluster/") || p.Name == "check.json" {
			return fmt.Errorf("a part with the name %.80q, which is the controller's", p.Name)
		}
	}
	return verifyFacts(r.Facts)
}

func verifyDiagnose(req doctor.DiagnoseRequest, r doctor.DiagnoseReply) error {
	if err := verifyFacts(r.Facts); err != nil {
		return err
	}
	known := func(id string) bool {
		return slices.ContainsFunc(req.Steps, func(s steps.Spec) bool { return s.ID == id })
	}
	unknown := func(ids []string) error {
		if i := slices.IndexFunc(ids, func(id string) bool { return !known(id) }); i >= 0 {
			return fmt.Errorf("a fix by step %q, which was not sent", ids[i])
		}
		return nil
	}
	if !r.Joined && len(r.Symptoms) > 0 {
		return fmt.Errorf("symptoms of a machine that has not joined")
	}
	for _, s := range r.Symptoms {
		if err := verifyFinding(s.Finding); err != nil {
			return err
		}
		if err := unknown(s.Fix); err != nil {
			return err
		}
	}
	if err := unknown(r.PauseFix); err != nil {
		return err
	}
	return verifyCount(r.Mutations)
}
