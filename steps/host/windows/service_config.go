//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc/mgr"

	"nodejoin/steps/host"
)

// servicesKey is where the service control manager keeps a service's settings.
// Environment (REG_MULTI_SZ) is read by it from there; no call sets it.
const servicesKey = `HKLM\SYSTEM\CurrentControlSet\Services\`

// CreateService registers a service, stopped. If a later setting fails, it removes the service again.
func (h *Host) CreateService(ctx context.Context, c host.ServiceConfig) error {
	const op = "create service"
	if ctx.Err() != nil {
		return failed(op, c.Name, context.Cause(ctx))
	}
	raw, err := encode(c)
	if err != nil {
		return failed(op, c.Name, err)
	}
	m, err := openManager(windows.SC_MANAGER_CONNECT | windows.SC_MANAGER_CREATE_SERVICE)
	if err != nil {
		return failed(op, c.Name, err)
	}
	defer m.Disconnect()
	name, err := windows.UTF16PtrFromString(c.Name)
	if err != nil {
		return failed(op, c.Name, err)
	}
	handle, err := windows.CreateService(m.Handle, name, raw.display, windows.SERVICE_ALL_ACCESS,
		windows.SERVICE_WIN32_OWN_PROCESS,
		raw.start, windows.SERVICE_ERROR_NORMAL, raw.command, nil, nil, raw.dependsOn, nil, nil)
	if err != nil {
		return failed(op, c.Name, err)
	}
	s := &mgr.Service{Name: c.Name, Handle: handle}
	defer s.Close()
	if err := configure(s, c); err != nil {
		return failed(op, c.Name, errors.Join(err, s.Delete()))
	}
	return nil
}

// UpdateService changes a registered service in place. Its type, account and error control become those of
// CreateService.
func (h *Host) UpdateService(ctx context.Context, c host.ServiceConfig) error {
	return withService(ctx, "update service", c.Name, changeRights, func(_ *mgr.Mgr, s *mgr.Service) error {
		raw, err := encode(c)
		if err != nil {
			return err
		}
		account, err := windows.UTF16PtrFromString(serviceAccount)
		if err != nil {
			return err
		}
		err = windows.ChangeServiceConfig(s.Handle, windows.SERVICE_WIN32_OWN_PROCESS, raw.start,
			windows.SERVICE_ERROR_NORMAL, raw.command, nil, nil, raw.dependsOn, account, nil, raw.display)
		if err != nil {
			return err
		}
		return configure(s, c)
	})
}

// serviceAccount is the account of services that are created without one.
const serviceAccount = "LocalSystem"

// altered says what of a registration is not as CreateService makes it.
func (c basicConfig) altered() string {
	switch {
	case !strings.EqualFold(strings.TrimPrefix(c.account, `.\`), serviceAccount):
		return "its account is " + c.account
	case c.serviceType != windows.SERVICE_WIN32_OWN_PROCESS:
		return fmt.Sprintf("its type is %#x", c.serviceType)
	case c.errorControl != windows.SERVICE_ERROR_NORMAL:
		return fmt.Sprintf("its error control is %d", c.errorControl)
	}
	return ""
}

// rawConfig is a configuration as the first call of the manager takes it.
type rawConfig struct {
	command, display, dependsOn *uint16
	start                       uint32
}

func encode(c host.ServiceConfig) (raw rawConfig, err error) {
	if len(c.Command) == 0 {
		return raw, errors.New("the service has no command")
	}
	switch c.Start {
	case host.StartAuto, host.StartDelayed:
		raw.start = windows.SERVICE_AUTO_START
	case host.StartManual:
		raw.start = windows.SERVICE_DEMAND_START
	case host.StartDisabled:
		raw.start = windows.SERVICE_DISABLED
	default:
		return raw, fmt.Errorf("unknown start type %q", c.Start)
	}
	if raw.command, err = windows.UTF16PtrFromString(composeCommand(c.Command)); err != nil {
		return raw, err
	}
	display := c.DisplayName
	if display == "" {
		display = c.Name
	}
	if raw.display, err = windows.UTF16PtrFromString(display); err != nil {
		return raw, err
	}
	raw.dependsOn, err = multiString(c.DependsOn)
	return raw, err
}

// composeCommand quotes the program as the manager wants it: a path with a blank
// in it that is not quoted could start another program.
func composeCommand(command []string) string { return windows.ComposeCommandLine(command) }

// multiString is a double-null-terminated block; of no strings it is two nulls,
// which clears a setting that nil would leave alone.
func multiString(list []string) (*uint16, error) {
	var block []uint16
	for _, s := range list {
		if s == "" || strings.ContainsRune(s, 0) {
			return nil, fmt.Errorf("%q cannot stand in a list of strings", s)
		}
		block = append(block, utf16.Encode([]rune(s))...)
		block = append(block, 0)
	}
	if len(block) == 0 {
		block = append(block, 0)
	}
	block = append(block, 0)
	return &block[0], nil
}

// configure sets what the first call does not take.
func configure(s *mgr.Service, c host.ServiceConfig) error {
	description, err := windows.UTF16PtrFromString(c.Description)
	if err != nil {
		return err
	}
	text := windows.SERVICE_DESCRIPTION{Description: description}
	if err := config2(s, windows.SERVICE_CONFIG_DESCRIPTION, unsafe.Pointer(&text)); err != nil {
		return fmt.Errorf("set description: %w", err)
	}
	var delayed windows.SERVICE_DELAYED_AUTO_START_INFO
	if c.Start == host.StartDelayed {
		delayed.IsDelayedAutoStartUp = 1
	}
	if err := config2(s, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, unsafe.Pointer(&delayed)); err != nil {
		return fmt.Errorf("set delayed start: %w", err)
	}
	if err := setRecovery(s, c); err != nil {
		return fmt.Errorf("set recovery actions: %w", err)
	}
	if err := setServiceEnvironment(c.Name, c.Environment); err != nil {
		return fmt.Errorf("set environment: %w", err)
	}
	return nil
}

func config2(s *mgr.Service, level uint32, info unsafe.Pointer) error {
	return windows.ChangeServiceConfig2(s.Handle, level, (*byte)(info))
}

// actionKinds names the recovery actions; only the first two are ever written.
var actionKinds = map[int]string{
	mgr.NoAction: "none", mgr.ServiceRestart: "restart", mgr.ComputerReboot: "reboot", mgr.RunCommand: "run_command",
}

// crashOnly ends the names of actions that are not taken when a service ends with an error code of its own.
const crashOnly = "_on_crash"

func setRecovery(s *mgr.Service, c host.ServiceConfig) error {
	if len(c.Recovery) == 0 {
		return s.ResetRecoveryActions()
	}
	actions, always := make([]mgr.RecoveryAction, 0, len(c.Recovery)), true
	for _, r := range c.Recovery {
		a := mgr.RecoveryAction{Delay: r.Delay}
		kind, crash := strings.CutSuffix(r.Action, crashOnly)
		always = always && !crash
		switch kind {
		case "restart":
			a.Type = mgr.ServiceRestart
		case "none":
			a.Type = mgr.NoAction
		default:
			return fmt.Errorf("unknown recovery action %q", r.Action)
		}
		actions = append(actions, a)
	}
	reset := c.RecoveryReset
	if reset == 0 {
		reset = windows.INFINITE
	}
	if err := s.SetRecoveryActions(actions, reset); err != nil {
		return err
	}
	// Without this flag a service that ends with an error code of its own is not restarted.
	return s.SetRecoveryActionsOnNonCrashFailures(always)
}

func setServiceEnvironment(name string, environment []string) error {
	k, err := openKey(servicesKey+name, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer k.Close()
	if len(environment) > 0 {
		return k.SetStringsValue("Environment", environment)
	}
	if err := k.DeleteValue("Environment"); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return err
	}
	return nil
}

// basicConfig is what QueryServiceConfig gives, decoded.
type basicConfig struct {
	command, display, account            string
	dependsOn                            []string // sorted
	serviceType, startType, errorControl uint32
}

func queryConfig(s *mgr.Service) (basicConfig, error) {
	size := uint32(1024)
	for {
		buf := make([]uint64, (size+7)/8) // aligned for the structure's pointers
		q := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
		need := size
		err := windows.QueryServiceConfig(s.Handle, q, uint32(len(buf)*8), &need)
		if errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) && need > size {
			size = need
			continue
		}
		if err != nil {
			return basicConfig{}, err
		}
		c := basicConfig{
			command: windows.UTF16PtrToString(q.BinaryPathName), display: windows.UTF16PtrToString(q.DisplayName),
			account:     windows.UTF16PtrToString(q.ServiceStartName),
			serviceType: q.ServiceType, startType: q.StartType, errorControl: q.ErrorControl,
		}
		for p := q.Dependencies; p != nil && *p != 0; {
			on := windows.UTF16PtrToString(p)
			c.dependsOn = append(c.dependsOn, on)
			p = (*uint16)(unsafe.Add(unsafe.Pointer(p), 2*(len(utf16.Encode([]rune(on)))+1)))
		}
		slices.Sort(c.dependsOn)
		return c, nil
	}
}

// readConfig gives a service's configuration, and what of its registration is not as CreateService makes it.
func readConfig(s *mgr.Service) (c host.ServiceConfig, altered string, err error) {
	basic, err := queryConfig(s)
	if err != nil {
		return c, "", err
	}
	rest, err := s.Config() // description and delayed start
	if err != nil {
		return c, "", err
	}
	command, err := windows.DecomposeCommandLine(basic.command)
	if err != nil {
		return c, "", fmt.Errorf("command line: %w", err)
	}
	c = host.ServiceConfig{
		Name: s.Name, DisplayName: basic.display, Description: rest.Description,
		Command: command, Start: startOf(basic.startType, rest.DelayedAutoStart), DependsOn: basic.dependsOn,
	}
	actions, err := s.RecoveryActions()
	if err != nil {
		return c, "", fmt.Errorf("recovery actions: %w", err)
	}
	if len(actions) > 0 {
		always, err := s.RecoveryActionsOnNonCrashFailures()
		if err != nil {
			return c, "", fmt.Errorf("failure flag: %w", err)
		}
		for _, a := range actions {
			kind := actionKinds[a.Type]
			if !always && a.Type != mgr.NoAction {
				kind += crashOnly
			}
			c.Recovery = append(c.Recovery, host.RecoveryAction{Action: kind, Delay: a.Delay.Truncate(time.Millisecond)})
		}
		if c.RecoveryReset, err = s.ResetPeriod(); err != nil {
			return c, "", fmt.Errorf("recovery reset period: %w", err)
		}
		if c.RecoveryReset == math.MaxUint32 { // INFINITE
			c.RecoveryReset = 0
		}
	}
	c.Environment, err = serviceEnvironment(s.Name)
	return c, basic.altered(), err
}

func startOf(start uint32, delayed bool) host.StartType {
	switch {
	case start == windows.SERVICE_AUTO_START && delayed:
		return host.StartDelayed
	case start == windows.SERVICE_AUTO_START:
		return host.StartAuto
	case start == windows.SERVICE_DEMAND_START:
		return host.StartManual
	case start == windows.SERVICE_DISABLED:
		return host.StartDisabled
	default: // a driver's
		return host.StartType(fmt.Sprintf("system (%d)", start))
	}
}

func serviceEnvironment(name string) ([]string, error) {
	k, err := openKey(servicesKey+name, registry.QUERY_VALUE)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	defer k.Close()
	environment, _, err := k.GetStringsValue("Environment")
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	slices.Sort(environment)
	return environment, nil
}
