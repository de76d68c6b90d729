package sandbox

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// authority is a certificate authority with its key, in PEM.
type authority struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// newAuthority creates a CA as kubeadm does: CN "kubernetes", valid for ten years.
func newAuthority() (authority, error) {
	return issue(nil, pkix.Name{CommonName: "kubernetes"}, 10*365*24*time.Hour)
}

// nodeCertificate issues the certificate of a kubelet, valid for one year (kubernetes.io, "PKI certificates and
// requirements").
func (a authority) nodeCertificate(node string) (cert, key string, err error) {
	return a.nodeCertificateFor(node, 365*24*time.Hour)
}

// nodeCertificateFor has CN system:node:<name>, in the group system:nodes.
func (a authority) nodeCertificateFor(node string, life time.Duration) (cert, key string, err error) {
	out, err := issue(&a, pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, life)
	return out.Cert, out.Key, err
}

func issue(by *authority, name pkix.Name, life time.Duration) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return authority{}, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-5 * time.Minute),
		NotAfter:              now.Add(life),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature}
	parent, signer := template, crypto.Signer(key)
	if by == nil {
		template.IsCA = true
		template.KeyUsage |= x509.KeyUsageCertSign
	} else {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if parent, err = by.certificate(); err != nil {
			return authority{}, err
		}
		if signer, err = by.signer(); err != nil {
			return authority{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return authority{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return authority{}, err
	}
	return authority{
		Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})),
	}, nil
}

func (a authority) certificate() (*x509.Certificate, error) { return parseCertificate(a.Cert) }

func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func (a authority) signer() (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(a.Key))
	if block == nil {
		return nil, errors.New("no PEM key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%T cannot sign", key)
	}
	return signer, nil
}

// hash returns the pin of the CA's public key in kubeadm's format.
func (a authority) hash() (string, error) {
	cert, err := a.certificate()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// nodeOf returns the node that a client certificate of this CA names. ok is false if the certificate has
// expired, is from another CA, or names no node.
func (a authority) nodeOf(pemCert string, now time.Time) (string, bool) {
	ca, err := a.certificate()
	if err != nil {
		return "", false
	}
	cert, err := parseCertificate(pemCert)
	if err != nil {
		return "", false
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	_, err = cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	const prefix = "system:node:"
	cn := cert.Subject.CommonName
	if err != nil || len(cn) <= len(prefix) || cn[:len(prefix)] != prefix {
		return "", false
	}
	return cn[len(prefix):], true
}

// randomHex returns 2n characters. crypto/rand does not fail.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
