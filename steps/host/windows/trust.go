//go:build windows

package windows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// Providers of the machine's store of trusted authorities, LocalMachine\Root: the whole store, with the
// entries of policies and of Windows itself, and the part in the registry that an administrator changes
// (learn.microsoft.com/windows/win32/api/wincrypt/nf-wincrypt-certopenstore).
const (
	wholeStore = uintptr(windows.CERT_STORE_PROV_SYSTEM_W)
	ownStore   = uintptr(windows.CERT_STORE_PROV_SYSTEM_REGISTRY_W)
)

// rootStore calls f with the store; what f changes in it is kept once it is closed.
func rootStore(ctx context.Context, provider uintptr, ca []byte, f func(store windows.Handle) error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := host.CheckCertificate(ca); err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString("ROOT")
	if err != nil {
		return err
	}
	store, err := windows.CertOpenStore(provider, 0, 0, windows.CERT_SYSTEM_STORE_LOCAL_MACHINE,
		uintptr(unsafe.Pointer(name)))
	if err != nil {
		return fmt.Errorf("open the store of trusted authorities: %w", err)
	}
	defer func() { err = errors.Join(err, windows.CertCloseStore(store, 0)) }()
	return f(store)
}

// findCA returns the entry of an authority, nil when there is none; the caller frees it.
func findCA(store windows.Handle, ca []byte) (*windows.CertContext, error) {
	var at *windows.CertContext
	for {
		next, err := windows.CertEnumCertificatesInStore(store, at) // it frees the one before
		if next == nil {
			if errors.Is(err, windows.Errno(windows.CRYPT_E_NOT_FOUND)) || errors.Is(err, windows.ERROR_NO_MORE_FILES) ||
				err == nil {
				return nil, nil
			}
			return nil, fmt.Errorf("list the trusted authorities: %w", err)
		}
		if at = next; bytes.Equal(unsafe.Slice(at.EncodedCert, at.Length), ca) {
			return at, nil
		}
	}
}

// TrustedCA reports whether an authority is in the machine's store.
func (h *Host) TrustedCA(ctx context.Context, ca []byte) (bool, error) {
	return hasCA(ctx, wholeStore, ca)
}

// AddedCA reports whether an authority is in the part of the store that TrustCA changes.
func (h *Host) AddedCA(ctx context.Context, ca []byte) (bool, error) {
	return hasCA(ctx, ownStore, ca)
}

func hasCA(ctx context.Context, provider uintptr, ca []byte) (has bool, err error) {
	err = rootStore(ctx, provider, ca, func(store windows.Handle) error {
		found, err := findCA(store, ca)
		if found == nil {
			return err
		}
		has = true
		return windows.CertFreeCertificateContext(found)
	})
	return has, failed("look for authority", "ROOT", err)
}

// TrustCA adds an authority to the machine's store; one that is there is not an error.
func (h *Host) TrustCA(ctx context.Context, ca []byte) error {
	return failed("trust authority", "ROOT", rootStore(ctx, ownStore, ca, func(store windows.Handle) error {
		c, err := windows.CertCreateCertificateContext(windows.X509_ASN_ENCODING|windows.PKCS_7_ASN_ENCODING, &ca[0],
			uint32(len(ca)))
		if err != nil {
			return err
		}
		err = windows.CertAddCertificateContextToStore(store, c, windows.CERT_STORE_ADD_USE_EXISTING, nil)
		return errors.Join(err, windows.CertFreeCertificateContext(c))
	}))
}

// DistrustCA removes an authority from the machine's store; absence is not an error.
func (h *Host) DistrustCA(ctx context.Context, ca []byte) error {
	return failed("distrust authority", "ROOT", rootStore(ctx, ownStore, ca, func(store windows.Handle) error {
		found, err := findCA(store, ca)
		if err != nil || found == nil {
			return err
		}
		return windows.CertDeleteCertificateFromStore(found) // it frees the entry, too
	}))
}
