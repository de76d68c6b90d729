package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"nodejoin/steps/kube"
)

// TakeLease creates the Lease, or writes over what this client has written. Where either fails, it reads the Lease and
// creates or updates it; its resource version prevents overwriting a concurrent writer.
func (k *client) TakeLease(ctx context.Context, want kube.Lease, from string) (before kube.Lease, err error) {
	leases := k.coord.Leases(metav1.NamespaceSystem)
	again := func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errEnded)
	}
	have := k.held.take(want.Name)
	if have != nil && leaseOf(have).Holder != want.Holder {
		have = nil // it may be another's by now
	}
	absent := have == nil
	err = retry.OnError(conflictPace, again, func() (err error) {
		read := have == nil && !absent
		if read {
			have, err = leases.Get(ctx, want.Name, metav1.GetOptions{})
			absent = apierrors.IsNotFound(err) && !isForeign(err)
		}
		before = kube.Lease{}
		var l *coordinationv1.Lease
		switch {
		case absent:
			fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: want.Name}}
			fill(fresh, want, true)
			l, err = leases.Create(ctx, fresh, metav1.CreateOptions{FieldManager: k.manager})
		case err != nil:
			return err
		default:
			found := leaseOf(have)
			if found.Holder != want.Holder {
				before = found
			}
			if found.Taken(want, from, time.Now()) {
				return kube.ErrHeld
			}
			fill(have, want, found.Holder != want.Holder)
			l, err = leases.Update(ctx, have, metav1.UpdateOptions{FieldManager: k.manager})
			if apierrors.IsNotFound(err) && !isForeign(err) {
				err = fmt.Errorf("%w: %w", errEnded, err)
			}
		}
		have, absent = nil, false // the next attempt reads
		if err == nil {
			k.held.keep(l)
		}
		return err
	})
	if errors.Is(err, kube.ErrHeld) {
		return before, err
	}
	return before, k.fail(ctx, "taking the Lease "+want.Name, err)
}

// errEnded is the error of a Lease that somebody has deleted since it was written or read.
var errEnded = errors.New("the Lease has been deleted")

// Leases lists the Leases whose names begin with prefix.
func (k *client) Leases(ctx context.Context, prefix string) (out []kube.Lease, err error) {
	list, err := k.coord.Leases(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, k.fail(ctx, "listing the Leases", err)
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, prefix) {
			out = append(out, leaseOf(&list.Items[i]))
		}
	}
	slices.SortFunc(out, func(a, b kube.Lease) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// ReleaseLease deletes exactly the Lease that this client wrote last, or has read.
func (k *client) ReleaseLease(ctx context.Context, name, holder string) error {
	leases := k.coord.Leases(metav1.NamespaceSystem)
	have := k.held.take(name)
	if have != nil && leaseOf(have).Holder != holder {
		have = nil
	}
	err := retryConflict(func() (err error) {
		if have == nil {
			have, err = leases.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) && !isForeign(err) || err == nil && leaseOf(have).Holder != holder {
				return nil
			}
			if err != nil {
				return err
			}
		}
		only := metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}
		have = nil // the next attempt reads
		err = leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &only})
		if apierrors.IsNotFound(err) && !isForeign(err) {
			return nil
		}
		return err
	})
	return k.fail(ctx, "releasing the Lease "+name, err)
}

func leaseOf(l *coordinationv1.Lease) kube.Lease {
	out := kube.Lease{Name: l.Name, Note: l.Annotations[kube.LeaseNote]}
	if l.Spec.HolderIdentity != nil {
		out.Holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseDurationSeconds != nil {
		out.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	if l.Spec.RenewTime != nil {
		out.Renewed = l.Spec.RenewTime.Time
	}
	return out
}

// fill sets l as wanted; a new holder gets a new time of acquisition.
func fill(l *coordinationv1.Lease, want kube.Lease, acquired bool) {
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[kube.LeaseNote] = want.Note
	seconds := int32(want.Duration / time.Second)
	renewed := metav1.NewMicroTime(want.Renewed)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &want.Holder, &seconds, &renewed
	if acquired {
		l.Spec.AcquireTime = &renewed
	}
}
