package eval

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

var cidrHost = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "network", Type: cty.String}, {Name: "number", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := netip.ParsePrefix(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		n, acc := args[1].AsBigFloat().Int(nil)
		if acc != big.Exact {
			return cty.NilVal, function.NewArgErrorf(1, "a whole number is wanted")
		}
		a, err := hostOf(p, n)
		return cty.StringVal(a.String()), err
	}})

var cidrNetmask = stringFunc(func(a []string) (string, error) {
	p, err := netip.ParsePrefix(a[0])
	if err != nil {
		return "", err
	}
	if !p.Addr().Is4() {
		return "", errors.New("IPv6 networks have no netmask")
	}
	m := uint32(0xffffffff) << (32 - p.Bits()) // a shift of 32 gives 0
	return netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}).String(), nil
}, "network")

var cidrSubnet = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "network", Type: cty.String}, {Name: "newbits", Type: cty.Number},
		{Name: "number", Type: cty.Number}},
	Type: function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := netip.ParsePrefix(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		bits, acc1 := args[1].AsBigFloat().Int64()
		n, acc2 := args[2].AsBigFloat().Int(nil)
		size := p.Addr().BitLen()
		if acc1 != big.Exact || acc2 != big.Exact || bits < 0 || int64(p.Bits())+bits > int64(size) {
			return cty.NilVal, fmt.Errorf("there are no subnets with %s more bits in %s", args[1].AsBigFloat().Text('f', -1), p)
		}
		length := p.Bits() + int(bits)
		if n.Sign() < 0 || n.BitLen() > int(bits) {
			return cty.NilVal, function.NewArgErrorf(2, "a subnet number of %d bits is wanted", bits)
		}
		a, err := hostOf(p.Masked(), new(big.Int).Lsh(n, uint(size-length)))
		return cty.StringVal(netip.PrefixFrom(a, length).String()), err
	}})

// hostOf is the n-th address of p; a negative n counts from its end.
func hostOf(p netip.Prefix, n *big.Int) (netip.Addr, error) {
	p = p.Masked()
	size := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
	if n.Sign() < 0 {
		n = new(big.Int).Add(size, n)
	}
	if n.Sign() < 0 || n.Cmp(size) >= 0 {
		return netip.Addr{}, fmt.Errorf("%s has %s addresses; there is no number %s", p, size, n)
	}
	sum := new(big.Int).SetBytes(p.Addr().AsSlice())
	b := make([]byte, p.Addr().BitLen()/8)
	sum.Add(sum, n).FillBytes(b)
	a, _ := netip.AddrFromSlice(b)
	return a, nil
}

// cidrContains reports whether an address or a whole network lies in a network.
var cidrContains = boolFunc(func(a []string) (bool, error) {
	p, err := netip.ParsePrefix(a[0])
	if err != nil {
		return false, function.NewArgErrorf(0, "%q is not a network; write for example \"10.244.0.0/16\"", a[0])
	}
	if ip, err := netip.ParseAddr(a[1]); err == nil {
		return p.Contains(ip), nil
	}
	inner, err := netip.ParsePrefix(a[1])
	if err != nil {
		return false, function.NewArgErrorf(1, "%q is neither an address nor a network", a[1])
	}
	return p.Bits() <= inner.Bits() && p.Contains(inner.Masked().Addr()), nil
}, "network", "address")
