package wire

// What the agent of a user without root's rights and the controller say to each other before the agent with
// those rights says hello. All are notifications.
const (
	NoteAsk      = "password_wanted" // agent: the program that gives root's rights asks for a password; said once
	NotePassword = "password"        // controller: Password
	NoteRefused  = "refused"         // agent: Refusal; it ends then
)

// Password answers NoteAsk.
type Password struct {
	Password string `json:"password"`
}

// Refusal says why the agent was not run with root's rights.
type Refusal struct {
	Why  RefusalReason `json:"why"`
	Said string        `json:"said,omitempty"` // by the program that gives root's rights, or by the system
}

// RefusalReason is one of the constants below.
type RefusalReason string

const (
	RefusedPlace    RefusalReason = "place"    // others can change the agent's program
	RefusedAbsent   RefusalReason = "absent"   // there is no such program as sudo
	RefusedAsking   RefusalReason = "asking"   // not without a password, and none is set
	RefusedPassword RefusalReason = "password" // the password is wrong
	RefusedDenied   RefusalReason = "denied"   // the user may not run the agent
	RefusedSilent   RefusalReason = "silent"   // it neither runs the agent nor asks for the password
)
