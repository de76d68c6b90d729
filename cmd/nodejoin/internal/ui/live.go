package ui

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"nodejoin/steps/event"
)

// frameEvery is the time between two frames. Events are only noted; they wait for no terminal.
const frameEvery = 100 * time.Millisecond

// live shows a run as it moves. What is to stay is printed above: failures, warnings, lost connections.
type live struct {
	t       *Term
	mu      sync.Mutex
	state   *liveState
	above   []string // lines to print
	program *tea.Program
	done    chan struct{}
	release func() // restores the terminal
}

func newLive(t *Term, w Work) *live {
	l := &live{t: t, state: newLiveState(w, time.Now()), done: make(chan struct{})}
	out, release := holdStill(t.Err)
	l.release = release
	// The command reads its own input and handles signals itself.
	l.program = tea.NewProgram(&liveModel{l: l}, tea.WithInput(nil), tea.WithOutput(out), tea.WithoutSignalHandler(),
		tea.WithoutCatchPanics(), tea.WithWindowSize(t.Width(), t.Height()))
	t.show(l)
	go func() {
		defer close(l.done)
		// Without a display the run goes on; its result comes after it.
		_, _ = l.program.Run()
	}()
	return l
}

// Emit notes an event.
func (l *live) Emit(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.take(e, time.Now())
	if stays(e) {
		if s := line(e, l.t.ErrColor, false); s != "" {
			l.above = append(l.above, s)
		}
	}
}

// stays reports whether an event is more than what happens at the moment.
func stays(e event.Event) bool {
	switch e := e.(type) {
	case event.Warning:
		return true
	case event.HostState:
		return slices.Contains([]string{"reconnecting", "moved_foreign", "agent_in_shell"}, e.State)
	case event.StepDone:
		return e.Result == "failed"
	}
	return false
}

// Close takes the moving lines away. A notice that comes meanwhile is printed after them.
func (l *live) Close() {
	l.program.Send(liveEnd{})
	<-l.done
	l.release()
	l.t.show(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.above {
		fmt.Fprintln(l.t.Err, s)
	}
	l.above = nil
}

// notice prints a line above the moving ones.
func (l *live) notice(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.above = append(l.above, text)
}

// abandon gives the terminal back at once.
func (l *live) abandon() {
	l.program.Kill()
	select {
	case <-l.done:
	case <-time.After(time.Second): // the terminal takes no more
	}
	l.release()
}

// liveTick asks for the next frame, liveEnd for the end.
type (
	liveTick struct{}
	liveEnd  struct{}
)

// liveModel is the part of live that bubbletea runs.
type liveModel struct {
	l             *live
	width, height int
	ended         bool
}

// Init begins the frames.
func (m *liveModel) Init() tea.Cmd { return tick() }

func tick() tea.Cmd { return tea.Tick(frameEvery, func(time.Time) tea.Msg { return liveTick{} }) }

// Update takes a message.
func (m *liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case liveTick:
		if m.ended {
			return m, nil
		}
		return m, tea.Sequence(m.print(), m.resized(), tick())
	case liveEnd:
		m.ended = true
		return m, tea.Sequence(m.print(), tea.Quit)
	}
	return m, nil
}

// print prints the lines that stay.
func (m *liveModel) print() tea.Cmd {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	if len(m.l.above) == 0 {
		return nil
	}
	var each []tea.Cmd
	for _, s := range m.l.above {
		each = append(each, tea.Println(s))
	}
	m.l.above = nil
	return tea.Sequence(each...)
}

// resized asks for the size of the terminal: Windows has no signal for a change.
func (m *liveModel) resized() tea.Cmd {
	w, h := m.l.t.Width(), m.l.t.Height()
	if w == m.width && h == m.height {
		return nil
	}
	return func() tea.Msg { return tea.WindowSizeMsg{Width: w, Height: h} }
}

// View is the frame of now.
func (m *liveModel) View() tea.View {
	var v tea.View
	v.DisableBracketedPasteMode = true
	if m.ended || m.width == 0 {
		return v
	}
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	f := frame{width: m.width, height: m.height, color: m.l.t.ErrColor, ascii: !m.l.t.UTF8}
	v.SetContent(strings.Join(f.draw(m.l.state, time.Now()), "\n"))
	v.Cursor = tea.NewCursor(0, 0) // see holdStill
	return v
}
