package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

var rebootKind = steps.Kind{Name: "reboot", Place: steps.OnHost, Image: true, Reboots: true,
	Doc: "the machine has booted since the last change that takes effect after a reboot",
	Args: map[string]string{
		"features": "features that must be on, and not only after a reboot, before a later step can work",
		"features_after": "features that later steps turn on: while one of them is off, the reboot is for what Windows " +
			"already " +
			"has pending, and for nothing else",
	},
	New: func() any { return &Reboot{} }}

// Reboot is one reboot for all that the steps before it need. The engine judges whether
// it may be, takes the Node's pods away first, and waits for the machine.
type Reboot struct {
	Policy        string   `json:"policy,omitempty" doc:"\"auto\", \"window\" or \"never\" (default)"`
	Windows       []string `json:"windows,omitempty" doc:"with \"window\": when, as \"Sat,Sun 22:00-04:00\" (UTC)"`
	HostName      string   `json:"host_name,omitempty" doc:"name that the machine must have now, not only after a reboot"`
	Features      []string `json:"features,omitempty"`
	FeaturesAfter []string `json:"features_after,omitempty"`
}

// Add makes the reboot one for what a step makes, where that counts only after a boot.
func (b *Reboot) Add(step any) bool {
	switch s := step.(type) {
	case *Feature:
		b.Features = append(b.Features, s.Name)
	case *HostName:
		b.HostName = s.Name
	default:
		return false
	}
	return true
}

// Words of Policy.
const (
	RebootAuto   = "auto"
	RebootWindow = "window"
	RebootNever  = "never"
)

// rebootAsked is the note on a machine that was asked to reboot.
const rebootAsked = "a reboot that nodejoin has asked for"

func (b *Reboot) validate() error {
	if !slices.Contains([]string{"", RebootAuto, RebootWindow, RebootNever}, b.Policy) {
		return steps.Invalid("policy %q is not one of auto, window, never", b.Policy)
	}
	if (len(b.Windows) > 0) != (b.Policy == RebootWindow) {
		return steps.Invalid("windows go with the policy \"window\", and only with it")
	}
	if len(b.FeaturesAfter) > 0 && (len(b.Features) > 0 || b.HostName != "") {
		return steps.Invalid("features_after is for a reboot before features are turned on; give features and host_name " +
			"to one after it")
	}
	for _, w := range b.Windows {
		if _, err := ParseRebootTime(w); err != nil {
			return steps.Invalid("%v", err)
		}
	}
	return nil
}

func (b *Reboot) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := b.validate(); err != nil {
		return steps.Change{}, err
	}
	noted, err := r.RebootNoted(ctx)
	if err != nil {
		return steps.Change{}, err
	}
	var need steps.RebootNeed
	switch {
	case slices.Contains(noted, rebootAsked):
		// No other question here: a machine that is going down may answer with errors.
		need = b.asked(noted)
	case len(b.FeaturesAfter) > 0:
		need.Blocks = true
		need.Why, err = host.FeaturesWait(ctx, r, b.FeaturesAfter)
	default:
		need, err = b.need(ctx, r, e, noted)
	}
	if err != nil || len(need.Why) == 0 && !need.Asked {
		return steps.Change{}, err
	}
	why := need.Why
	if need.Asked {
		why = append(slices.Clone(why), "a reboot that was asked for")
	}
	return steps.Change{Action: steps.ActionReboot, Reason: "for " + strings.Join(why, ", "), Reboot: &need}, nil
}

// asked is the need of a machine that was asked to reboot and has not done so yet.
func (b *Reboot) asked(noted []string) steps.RebootNeed {
	need := steps.RebootNeed{Asked: true, Blocks: true}
	if len(b.FeaturesAfter) == 0 {
		need.Why = slices.DeleteFunc(slices.Clone(noted), func(what string) bool { return what == rebootAsked })
	}
	return need
}

// need collects what a reboot is needed for: what nodejoin has noted, what counts only
// after a boot, what earlier steps are about to change and, if the plan allows reboots,
// what Windows itself waits for.
func (b *Reboot) need(ctx context.Context, r host.Reader, e *steps.Env, noted []string) (steps.RebootNeed, error) {
	features, err := b.pendingFeatures(ctx, r)
	if err != nil {
		return steps.RebootNeed{}, err
	}
	why := slices.Concat(noted, features)
	if b.HostName != "" {
		pending, err := namePending(ctx, r, b.HostName)
		if err != nil {
			return steps.RebootNeed{}, err
		}
		if pending {
			why = append(why, newName+b.HostName)
		}
	}
	need := steps.RebootNeed{Blocks: len(features) > 0}
	for t := range e.Pending {
		if t.Reboot != "" {
			why = append(why, t.Reboot)
			need.Blocks = need.Blocks || b.isFeature(t.Reboot)
		}
	}
	if b.Policy == RebootAuto || b.Policy == RebootWindow { // otherwise it is a preflight finding
		others, err := othersReboot(ctx, r)
		if err != nil {
			return steps.RebootNeed{}, err
		}
		// For a new name, Windows notes the NetBIOS form, which may differ.
		named := slices.ContainsFunc(why, isNewName)
		why = append(why, slices.DeleteFunc(others, func(what string) bool { return named && isNewName(what) })...)
	}
	slices.Sort(why)
	need.Why = slices.Compact(why)
	return need, nil
}

// pendingFeatures are the reasons of those Features that are on only after a reboot.
func (b *Reboot) pendingFeatures(ctx context.Context, r host.SystemReader) (why []string, err error) {
	for _, name := range b.Features {
		state, err := r.Feature(ctx, name)
		if err != nil {
			return nil, err
		}
		if state == host.FeatureOnPending {
			why = append(why, featureReason(name))
		}
	}
	return why, nil
}

// isFeature reports whether a reason for a reboot is one of Features.
func (b *Reboot) isFeature(why string) bool {
	return slices.ContainsFunc(b.Features, func(name string) bool { return strings.EqualFold(why, featureReason(name)) })
}

func isNewName(why string) bool { return strings.HasPrefix(why, newName) }

// othersReboot asks in the places where Windows notes that it wants a reboot itself:
// servicing, Windows Update, and the name of the machine. Files to be renamed at the
// next boot are noted by many programs for no need of their own, and do not count.
func othersReboot(ctx context.Context, r host.RegistryReader) ([]string, error) {
	out, err := host.ServicingWaits(ctx, r)
	if errors.Is(err, host.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const names = host.CurrentControlSet + `Control\ComputerName\`
	next, err1 := r.RegistryValue(ctx, names+"ComputerName", "ComputerName")
	now, err2 := r.RegistryValue(ctx, names+"ActiveComputerName", "ComputerName")
	for _, err := range []error{err1, err2} {
		if errors.Is(err, fs.ErrNotExist) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if !strings.EqualFold(next.String, now.String) {
		out = append(out, newName+next.String)
	}
	return out, nil
}

// Apply asks the machine to reboot. A check after it is back shows that it did.
func (b *Reboot) Apply(ctx context.Context, h host.Host, _ *steps.Env, c steps.Change) (steps.Outcome, error) {
	if c.Reboot == nil || !c.Reboot.Asked { // else the request may have been lost with the run that made it
		if err := h.NoteReboot(ctx, rebootAsked); err != nil {
			return steps.Outcome{}, err
		}
	}
	err := h.Reboot(ctx)
	if errors.Is(err, host.ErrShutdownPlanned) {
		err = &steps.Error{Code: steps.CodeFailed, Summary: "somebody else has planned a shutdown of the machine",
			Detail: err.Error(),
			Remedy: "wait for that shutdown, or cancel it (shutdown /a on the machine); then apply again"}
	}
	return steps.Outcome{}, err
}

// RebootTime is a span of the week in which machines may be rebooted, in UTC.
type RebootTime struct {
	days     [7]bool       // on which it begins, by time.Weekday
	from, to time.Duration // since midnight; to before from ends on the next day
}

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// ParseRebootTime reads "22:00-04:00" (every day), "Sat 01:00-05:00" or
// "Mon-Fri,Sun 22:00-04:00"; the days are those on which it begins.
func ParseRebootTime(text string) (RebootTime, error) {
	w := RebootTime{}
	wrong := fmt.Errorf("%q is not a time of the week such as \"Sat,Sun 22:00-04:00\" (UTC)", text)
	days, span, ok := strings.Cut(text, " ")
	if !ok {
		days, span = "Sun-Sat", text
	}
	for part := range strings.SplitSeq(days, ",") {
		first, last, isSpan := strings.Cut(part, "-")
		if !isSpan {
			last = first
		}
		a, b := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if a < 0 || b < 0 {
			return w, wrong
		}
		for d := a; ; d = (d + 1) % 7 {
			w.days[d] = true
			if d == b {
				break
			}
		}
	}
	from, to, ok := strings.Cut(span, "-")
	if !ok {
		return w, wrong
	}
	for _, p := range []struct {
		text string
		at   *time.Duration
	}{{from, &w.from}, {to, &w.to}} {
		t, err := time.Parse("15:04", p.text)
		if err != nil {
			return w, wrong
		}
		*p.at = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
	if w.from == w.to {
		return w, wrong
	}
	return w, nil
}

// Holds reports whether t is in the span.
func (w RebootTime) Holds(t time.Time) bool {
	t = t.UTC()
	at := t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)).Truncate(time.Second)
	today, yesterday := w.days[t.Weekday()], w.days[(t.Weekday()+6)%7]
	if w.from < w.to {
		return today && at >= w.from && at < w.to
	}
	return today && at >= w.from || yesterday && at < w.to
}

// May reports whether the machine may be rebooted at a time, and else why not.
func (b *Reboot) May(now time.Time) (ok bool, why string) {
	switch b.Policy {
	case RebootAuto:
		return true, ""
	case RebootWindow:
		for _, text := range b.Windows {
			if w, err := ParseRebootTime(text); err == nil && w.Holds(now) {
				return true, ""
			}
		}
		return false, fmt.Sprintf("it is %s, and the plan lets it reboot at %s only", now.UTC().Format("Mon 15:04"),
			strings.Join(b.Windows, ", "))
	}
	return false, "the plan does not let nodejoin reboot it"
}
