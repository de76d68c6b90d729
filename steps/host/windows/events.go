//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// The Windows Event Log API: learn.microsoft.com/windows/win32/wes/windows-event-log-functions, with the values of
// winevt.h.
var (
	wevtapi          = windows.NewLazySystemDLL("wevtapi.dll")
	evtQuery         = wevtapi.NewProc("EvtQuery")
	evtNext          = wevtapi.NewProc("EvtNext")
	evtClose         = wevtapi.NewProc("EvtClose")
	evtRender        = wevtapi.NewProc("EvtRender")
	evtCreateContext = wevtapi.NewProc("EvtCreateRenderContext")
	evtPublisher     = wevtapi.NewProc("EvtOpenPublisherMetadata")
	evtFormatMessage = wevtapi.NewProc("EvtFormatMessage")
)

const (
	evtQueryNewestFirst = 0x1 | 0x200 // EvtQueryChannelPath, EvtQueryReverseDirection
	evtContextSystem    = 1           // the properties that every event has
	evtContextUser      = 2           // the values in its message
	evtRenderValues     = 0
	evtFormatEvent      = 1
	evtNextMilliseconds = 10_000
	errNoChannel        = windows.Errno(15007) // ERROR_EVT_CHANNEL_NOT_FOUND
	evtMaxBytes         = 1 << 20              // of the values or of the message of one event

	// EVT_SYSTEM_PROPERTY_ID
	evtProvider, evtID, evtLevel, evtTime = 0, 2, 4, 8

	// EVT_VARIANT: the value or a pointer, its count, its type (EVT_VARIANT_TYPE)
	evtVariantWords = 2 // of 64 bits
	evtTypeString   = 1
	evtTypeByte     = 4
	evtTypeUint16   = 6
	evtTypeUint32   = 8
	evtTypeUint64   = 10
	evtTypeFileTime = 17
)

// evtLevels are the levels that Windows defines (winmeta.xml); 0, "log always", is that of what is not an error.
var evtLevels = map[uint64]string{0: "information", 1: "critical", 2: "error", 3: "warning", 4: "information",
	5: "verbose"}

// Events reads a channel of the event log.
func (h *Host) Events(ctx context.Context, channel string, sources []string, most int) ([]host.Event, error) {
	err := host.CheckEvents(channel, sources, most)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var out []host.Event
	if err == nil {
		out, err = readEvents(ctx, channel, sources, most)
	}
	return out, failed("read event log", channel, err)
}

func readEvents(ctx context.Context, channel string, sources []string, most int) ([]host.Event, error) {
	for _, p := range []*windows.LazyProc{evtQuery, evtNext, evtClose, evtRender, evtCreateContext, evtPublisher,
		evtFormatMessage} {
		if err := p.Find(); err != nil {
			return nil, fmt.Errorf("%w (%w)", host.ErrUnsupported, err)
		}
	}
	results, err := queryEvents(channel, sources)
	if err != nil {
		return nil, err
	}
	defer closeEvent(results)
	l := eventLog{publishers: map[string]uintptr{}}
	defer l.close()
	if l.system, err = renderContext(evtContextSystem); err != nil {
		return nil, err
	}
	if l.user, err = renderContext(evtContextUser); err != nil {
		return nil, err
	}
	out := []host.Event{}
	for len(out) < most {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, err := l.next(results)
		if errors.Is(err, windows.ERROR_NO_MORE_ITEMS) {
			break
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func queryEvents(channel string, sources []string) (uintptr, error) {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = "@Name='" + s + "'"
	}
	path, err := windows.UTF16PtrFromString(channel)
	if err != nil {
		return 0, err
	}
	query, err := windows.UTF16PtrFromString("*[System[Provider[" + strings.Join(names, " or ") + "]]]")
	if err != nil {
		return 0, err
	}
	r, _, err := evtQuery.Call(0, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(query)), evtQueryNewestFirst)
	return opened("EvtQuery", r, err)
}

func renderContext(what uintptr) (uintptr, error) {
	r, _, err := evtCreateContext.Call(0, 0, what)
	return opened("EvtCreateRenderContext", r, err)
}

// opened is the result of a function that returns an EVT_HANDLE. Those of Wine return none.
func opened(function string, handle uintptr, err error) (uintptr, error) {
	switch {
	case handle != 0:
		return handle, nil
	case errors.Is(err, windows.ERROR_SUCCESS), errors.Is(err, windows.ERROR_CALL_NOT_IMPLEMENTED):
		return 0, fmt.Errorf("%w: %s does nothing here", host.ErrUnsupported, function)
	case errors.Is(err, errNoChannel):
		return 0, fs.ErrNotExist
	}
	return 0, fmt.Errorf("%s: %w", function, err)
}

func closeEvent(handle uintptr) {
	if handle != 0 {
		_, _, _ = evtClose.Call(handle)
	}
}

// eventLog reads events; its handles are closed together.
type eventLog struct {
	system, user uintptr
	publishers   map[string]uintptr // by the name of a source; 0 = it has registered no messages
}

func (l *eventLog) close() {
	closeEvent(l.system)
	closeEvent(l.user)
	for _, p := range l.publishers {
		closeEvent(p)
	}
}

func (l *eventLog) next(results uintptr) (host.Event, error) {
	var event uintptr
	var n uint32
	if r, _, err := evtNext.Call(results, 1, uintptr(unsafe.Pointer(&event)), evtNextMilliseconds, 0,
		uintptr(unsafe.Pointer(&n))); r == 0 {
		return host.Event{}, fmt.Errorf("EvtNext: %w", err)
	}
	defer closeEvent(event)
	system, err := render(l.system, event)
	if err != nil {
		return host.Event{}, err
	}
	e := host.Event{Source: system.text(evtProvider), ID: uint16(system.number(evtID)),
		Time: system.time(evtTime)}
	level := system.number(evtLevel)
	if e.Level = evtLevels[level]; e.Level == "" {
		e.Level = strconv.FormatUint(level, 10)
	}
	if e.Text = l.message(e.Source, event); e.Text != "" {
		return e, nil
	}
	user, err := render(l.user, event)
	if err != nil {
		return host.Event{}, err
	}
	var values []string
	for i := range user.count {
		values = append(values, user.text(i))
	}
	e.Text = strings.Join(values, ", ")
	return e, nil
}

// message is the message of an event as its source has registered it; "" = there is none.
func (l *eventLog) message(source string, event uintptr) string {
	publisher, ok := l.publishers[source]
	if !ok {
		if name, err := windows.UTF16PtrFromString(source); err == nil {
			publisher, _, _ = evtPublisher.Call(0, uintptr(unsafe.Pointer(name)), 0, 0, 0)
		}
		l.publishers[source] = publisher
	}
	if publisher == 0 {
		return ""
	}
	var used uint32 // characters
	_, _, err := evtFormatMessage.Call(publisher, event, 0, 0, 0, evtFormatEvent, 0, 0, uintptr(unsafe.Pointer(&used)))
	if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) || used == 0 || used > evtMaxBytes/2 {
		return ""
	}
	text := make([]uint16, used)
	if r, _, _ := evtFormatMessage.Call(publisher, event, 0, 0, 0, evtFormatEvent, uintptr(used),
		uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&used))); r == 0 {
		return ""
	}
	return strings.TrimSpace(windows.UTF16ToString(text))
}

// render returns the values of an event that the context names.
func render(context, event uintptr) (v evtValues, err error) {
	var used, count uint32
	_, _, err = evtRender.Call(context, event, evtRenderValues, 0, 0, uintptr(unsafe.Pointer(&used)),
		uintptr(unsafe.Pointer(&count)))
	if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) {
		if errors.Is(err, windows.ERROR_SUCCESS) {
			return v, nil // an event without values
		}
		return v, fmt.Errorf("EvtRender: %w", err)
	}
	if used > evtMaxBytes {
		return v, fmt.Errorf("EvtRender: an event of %d bytes", used)
	}
	v.words = make([]uint64, used/8+1)
	r, _, err := evtRender.Call(context, event, evtRenderValues, uintptr(used), uintptr(unsafe.Pointer(&v.words[0])),
		uintptr(unsafe.Pointer(&used)), uintptr(unsafe.Pointer(&count)))
	if r == 0 {
		return v, fmt.Errorf("EvtRender: %w", err)
	}
	v.count = min(int(count), len(v.words)/evtVariantWords)
	return v, nil
}

// evtValues are values of the type EVT_VARIANT, and behind them the texts to which they point.
type evtValues struct {
	words []uint64
	count int
}

// variant is the value or pointer, and the type of a value.
func (v evtValues) variant(i int) (value uint64, kind uint32) {
	if i >= v.count {
		return 0, 0
	}
	return v.words[i*evtVariantWords], uint32(v.words[i*evtVariantWords+1] >> 32)
}

// number is a value of a type that has numbers, or 0.
func (v evtValues) number(i int) uint64 {
	switch value, kind := v.variant(i); kind {
	case evtTypeByte:
		return value & 0xff
	case evtTypeUint16:
		return value & 0xffff
	case evtTypeUint32:
		return value & 0xffffffff
	case evtTypeUint64, evtTypeFileTime:
		return value
	}
	return 0
}

func (v evtValues) time(i int) time.Time {
	n := v.number(i)
	f := windows.Filetime{LowDateTime: uint32(n & 0xffffffff), HighDateTime: uint32(n >> 32)}
	return time.Unix(0, f.Nanoseconds()).UTC()
}

// text is a string, or a number in digits. What lies outside the buffer is not read.
func (v evtValues) text(i int) string {
	value, kind := v.variant(i)
	if kind != evtTypeString {
		return strconv.FormatUint(v.number(i), 10)
	}
	buffer := unsafe.Slice((*uint16)(unsafe.Pointer(&v.words[0])), len(v.words)*4)
	start := (value - uint64(uintptr(unsafe.Pointer(&v.words[0])))) / 2
	if start >= uint64(len(buffer)) {
		return ""
	}
	return windows.UTF16ToString(buffer[start:])
}
