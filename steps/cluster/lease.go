package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"nodejoin/steps/kube"
)

// TakeLease reads the Lease and creates or updates it; its resource version prevents overwriting a concurrent
// writer.
func (k *client) TakeLease(ctx context.Context, want kube.Lease, from string) (before kube.Lease, err error) {
	leases := k.coord.Leases(metav1.NamespaceSystem)
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err = retry.OnError(conflictPace, again, func() error {
		before = kube.Lease{}
		have, err := leases.Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && !isForeign(err):
			fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: want.Name}}
			fill(fresh, want, true)
			_, err := leases.Create(ctx, fresh, metav1.CreateOptions{FieldManager: k.manager})
			return err
		case err != nil:
			return err
		}
		l := leaseOf(have)
		if l.Holder != want.Holder {
			before = l
		}
		if l.Taken(want, from, time.Now()) {
			return kube.ErrHeld
		}
		fill(have, want, l.Holder != want.Holder)
		_, err = leases.Update(ctx, have, metav1.UpdateOptions{FieldManager: k.manager})
		return err
	})
	if errors.Is(err, kube.ErrHeld) {
		return before, err
	}
	return before, k.fail(ctx, "taking the Lease "+want.Name, err)
}

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

// ReleaseLease deletes exactly the Lease that it has read.
func (k *client) ReleaseLease(ctx context.Context, name, holder string) error {
	leases := k.coord.Leases(metav1.NamespaceSystem)
	err := retryConflict(func() error {
		have, err := leases.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !isForeign(err) || err == nil && leaseOf(have).Holder != holder {
			return nil
		}
		if err != nil {
			return err
		}
		err = leases.Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}})
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
