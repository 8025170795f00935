package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// A model of replicas, signer directories, and two databases, the second of which is an earlier state of the first one,
// promoted or restored beside it. A breadth-first search visits all states. The decision is the signer's own code.

const (
	modelReplicas    = 3
	modelDirectories = 3
	mostEvents       = 2 // maximum of a log
	mostSetBack      = 2 // maximum number of losses
	none             = uint8(255)
)

// history is a log or a prefix of one: a number for each sequence of events. An event is named after the number of
// earlier losses, so that an event after a restore differs from the lost one.
type history = uint8

var histories, historyNumber = func() (all []string, number map[string]history) {
	all, number = []string{""}, map[string]history{"": 0}
	for i := 0; i < len(all); i++ {
		if len(all[i]) == mostEvents {
			continue
		}
		for event := byte('a'); event <= 'a'+mostSetBack; event++ {
			next := all[i] + string(event)
			number[next] = history(len(all))
			all = append(all, next)
		}
	}
	return all, number
}()

func size(h history) int { return len(histories[h]) }

func front(h history, n int) history { return historyNumber[histories[h][:n]] }

func isFront(a, b history) bool { return strings.HasPrefix(histories[b], histories[a]) }

// modelTree returns the tree of a history: its hash identifies the history, as SHA-256 does.
func modelTree(h history) *tlog.Tree {
	if h == none {
		return nil
	}
	return &tlog.Tree{N: int64(size(h)), Hash: tlog.Hash{h}}
}

type modelDatabase struct {
	log    history
	sealed uint8   // sealed events
	last   history // newest checkpoint
	event  uint8   // name of the next event
}

// Steps of a signature.
const (
	idle      = uint8(iota)
	hasSigned // signed, and stored nowhere
	isNoted   // or, with a planted fault, in the database
)

// modelReplica is zero between signatures: a signer's only state is its directory, and it may connect to either
// database each time.
type modelReplica struct {
	database uint8
	phase    uint8
	next     history // to sign
	previous history // last checkpoint of the database
}

type modelState struct {
	databases [2]modelDatabase
	promoted  bool          // the second database exists
	saved     modelDatabase // state of a standby or a backup
	setBack   uint8
	noted     [modelDirectories]history // newest note in each directory
	replicas  [modelReplicas]modelReplica
	served    history // largest published checkpoint
}

// model describes the replicas, and a planted fault. Directory 0 is the one that the origin names.
type model struct {
	directory [modelReplicas]uint8    // of each replica, or none
	id        [modelDirectories]uint8 // of each directory: a copy has the id of the original
	events    int                     // maximum of a log
	losses    uint8                   // maximum number of restores and promotions
	copies    bool                    // directory 1 is replaced by a copy of directory 0 at any time
	oldCopy   bool                    // directory 1 is a copy of directory 0 that is older than any state of the databases

	ignoreNote, ignoreLast, ignoreID, insertFirst, eager bool // planted faults
}

func directoryID(n uint8) uuid.UUID { return uuid.UUID{n + 1} }

// modelRun is the result of a search.
type modelRun struct {
	states, signed, waited, forked, refused, setBack int
	// forks that were reported although the log has everything signed
	accused int
	fork    string // steps to two conflicting checkpoints
}

// facts returns the facts of a replica with a directory and a database.
func (m *model) facts(s *modelState, d *modelDatabase, directory uint8) ledger.Facts {
	f := ledger.Facts{
		Directory: directoryID(m.id[directory]), Signer: uuid.NullUUID{UUID: directoryID(m.id[0]), Valid: true},
		Noted: modelTree(s.noted[directory]), Last: modelTree(d.last),
		Tree: *modelTree(front(d.log, int(d.sealed))), Unsealed: int(d.sealed) < size(d.log),
	}
	if m.ignoreNote {
		f.Noted = f.Last
	}
	if m.ignoreLast {
		f.Last = nil
	}
	if m.ignoreID {
		f.Signer.UUID = f.Directory
	}
	if m.eager {
		f.Unsealed = false
	}
	return f
}

// modelStep is a transition between states.
type modelStep struct {
	what string
	who  int // replica or database
}

// explore visits all states until two checkpoints conflict.
func (m *model) explore(t *testing.T) (run modelRun) {
	t.Helper()
	first := modelState{served: none, noted: [modelDirectories]history{none, none, none}}
	first.databases[0] = modelDatabase{last: none}
	if m.oldCopy {
		signed, d := historyNumber["a"], &first.databases[0]
		first.noted[0], first.noted[1], first.served = signed, historyNumber[""], signed
		d.log, d.sealed, d.last = signed, 1, signed
	}
	first.saved = first.databases[0]
	type visit struct {
		state modelState
		from  int
		step  modelStep
	}
	visits, seen := []visit{{state: first}}, map[modelState]struct{}{first: {}}
	for at := 0; at < len(visits) && run.fork == ""; at++ {
		s := visits[at].state
		m.steps(t, &s, &run, func(next modelState, what string, who int) {
			m.sort(&next)
			if _, ok := seen[next]; !ok {
				seen[next] = struct{}{}
				visits = append(visits, visit{next, at, modelStep{what, who}})
			}
		}, func(disagree string) {
			if run.fork != "" {
				return
			}
			for v := visits[at]; v.step.what != ""; v = visits[v.from] {
				run.fork = fmt.Sprintf("%s %d, ", v.step.what, v.step.who) + run.fork
			}
			run.fork += disagree
		})
	}
	run.states = len(visits)
	return run
}

// sort normalises states that differ only by a permutation of equal replicas.
func (m *model) sort(s *modelState) {
	for range modelReplicas {
		for i := 1; i < modelReplicas; i++ {
			if a, b := &s.replicas[i-1], &s.replicas[i]; m.directory[i-1] == m.directory[i] && a.order() < b.order() {
				*a, *b = *b, *a
			}
		}
	}
}

func (r *modelReplica) order() uint32 {
	return uint32(r.phase)<<24 | uint32(r.database)<<16 | uint32(r.next)<<8 | uint32(r.previous)
}

// cut ends all connections to a database.
func cut(s *modelState, database int) {
	for i := range s.replicas {
		if r := &s.replicas[i]; int(r.database) == database {
			*r = modelReplica{}
		}
	}
}

// steps calls next for each possible step of a state.
func (m *model) steps(
	t *testing.T, s *modelState, run *modelRun, to func(next modelState, what string, who int), fork func(string),
) {
	t.Helper()
	for i := range s.databases {
		if i == 0 || s.promoted {
			m.databaseSteps(s, i, run, to)
		}
	}
	if !s.promoted && s.setBack < m.losses {
		next := *s
		next.promoted = true
		next.setBack++
		next.databases[1] = s.saved
		next.databases[1].event = next.setBack
		run.setBack++
		to(next, "promote", 1)
	}
	if m.copies && s.noted[1] != s.noted[0] {
		next := *s
		next.noted[1] = s.noted[0]
		to(next, "copy directory", 0)
	}
	for i := range s.replicas {
		m.replicaSteps(t, s, i, run, to, fork)
	}
}

func (m *model) databaseSteps(s *modelState, i int, run *modelRun, to func(modelState, string, int)) {
	d := s.databases[i]
	change := func(d modelDatabase, cutOff bool, what string) {
		next := *s
		next.databases[i] = d
		if cutOff {
			cut(&next, i)
		}
		to(next, what, i)
	}
	if size(d.log) < m.events {
		grown := d
		grown.log = historyNumber[histories[d.log]+string('a'+d.event)]
		change(grown, false, "append to")
	}
	if int(d.sealed) < size(d.log) {
		grown := d
		grown.sealed++
		change(grown, false, "seal in")
	}
	// A crash may lose seals, but none before a checkpoint. The next steps may seal again.
	crashed := d
	crashed.sealed = 0
	if d.last != none {
		crashed.sealed = uint8(size(d.last))
	}
	change(crashed, true, "crash")
	if m.losses == 0 {
		return
	}
	next := *s
	next.saved = d
	to(next, "save", i)
	if s.setBack < m.losses {
		next := *s
		next.setBack++
		run.setBack++
		next.databases[i] = s.saved
		next.databases[i].event = next.setBack
		cut(&next, i)
		to(next, "restore", i)
	}
}

func (m *model) replicaSteps(
	t *testing.T, s *modelState, i int, run *modelRun, to func(modelState, string, int), fork func(string),
) {
	t.Helper()
	r, directory := s.replicas[i], m.directory[i]
	if directory == none {
		return
	}
	change := func(next modelState, r modelReplica, what string) {
		next.replicas[i] = r
		to(next, what, i)
	}
	insert := func(after modelReplica) {
		next := *s
		d := &next.databases[r.database]
		if d.last != r.previous {
			change(next, modelReplica{}, "refused by the database: replica")
			return
		}
		d.last = r.next
		if s.served != none && !isFront(s.served, r.next) && !isFront(r.next, s.served) {
			fork(fmt.Sprintf("replica %d shows %q, and %q was seen", i, histories[r.next], histories[s.served]))
			return
		}
		if s.served == none || size(r.next) > size(s.served) {
			next.served = r.next
		}
		change(next, after, "insert from replica")
	}
	store := func(after modelReplica) {
		next := *s
		next.noted[directory] = r.next
		change(next, after, "store note of replica")
	}
	further := r
	further.phase = isNoted
	switch r.phase {
	case idle:
		for database := range s.databases {
			if database == 0 || s.promoted {
				m.start(t, s, i, database, run, change)
			}
		}
		return
	case hasSigned:
		if m.insertFirst {
			insert(further)
		} else {
			store(further)
		}
	case isNoted:
		if m.insertFirst {
			store(modelReplica{})
		} else {
			insert(modelReplica{})
		}
	}
	change(*s, modelReplica{}, "kill replica")
}

// start is a step of a replica between signatures.
func (m *model) start(
	t *testing.T, s *modelState, i, database int, run *modelRun, change func(modelState, modelReplica, string),
) {
	t.Helper()
	d, directory := &s.databases[database], m.directory[i]
	f := m.facts(s, d, directory)
	for j := range s.replicas {
		if j != i && m.directory[j] == directory && s.replicas[j].phase != idle {
			return // the directory is locked
		}
	}
	tree := front(d.log, int(d.sealed))
	sign, err := f.Decide(func(older tlog.Tree) error {
		if !isFront(older.Hash[0], tree) {
			return ledger.ErrForked
		}
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrForked):
		run.forked++
		if isFront(s.noted[directory], d.log) && (d.last == none || isFront(d.last, d.log)) && !m.ignoreNote {
			run.accused++
		}
	case errors.Is(err, ledger.ErrDirectory):
		run.refused++
	case err != nil:
		t.Error(err)
	case !sign && f.Unsealed && f.Noted != nil && f.Noted.N > f.Tree.N:
		run.waited++
	case sign:
		run.signed++
		change(*s, modelReplica{database: uint8(database), phase: hasSigned, next: tree, previous: d.last},
			fmt.Sprintf("sign %q of database %d in replica", histories[tree], database))
	}
}

// Directories of replicas, and ids of directories.
var (
	allShare  = [modelReplicas]uint8{0, 0, 0}
	oneHas    = [modelReplicas]uint8{0, none, none}
	allTheirs = [modelReplicas]uint8{0, 1, 2}
	oneCopied = [modelReplicas]uint8{0, 1, none}
	different = [modelDirectories]uint8{0, 1, 2}
	sameID    = [modelDirectories]uint8{0, 0, 0}
)

// TestNoTwoCheckpointsDisagree: no order of crashes, restores and promotions leads to two conflicting checkpoints,
// whether replicas share a signer directory, have their own, or none. A copied directory does not sign what the
// database shows that it has missed. No log is accused of a loss without one. Two events are enough: to lose a signed
// one and to sign another one in its place.
func TestNoTwoCheckpointsDisagree(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]model{
		"a directory is shared":         {directory: allShare, id: different, losses: 1},
		"one replica has the directory": {directory: oneHas, id: different, losses: 1},
		"each has a directory":          {directory: allTheirs, id: different, losses: 1},
		"one replica has an old copy":   {directory: oneCopied, id: sameID, losses: 2, oldCopy: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.events = 2
			run := m.explore(t)
			t.Logf("%+v", run)
			if run.fork != "" {
				t.Error(run.fork)
			}
			if run.accused > 0 {
				t.Errorf("%d times a log was said to have lost what it has", run.accused)
			}
			met := run.signed > 0 && run.forked > 0 && run.setBack > 0
			if !met || run.waited == 0 && !m.oldCopy || run.refused == 0 && m.directory[1] == 1 {
				t.Error("the search has not met what it looks for")
			}
		})
	}
}

// TestCopiedDirectories: unless a database is set back, copies of a directory sign one after the other, or not at all.
func TestCopiedDirectories(t *testing.T) {
	t.Parallel()
	m := model{directory: oneCopied, id: sameID, copies: true, events: 2}
	if run := m.explore(t); run.fork != "" || run.accused > 0 || run.refused == 0 {
		t.Errorf("%+v", run)
	}
}

// TestModelFindsForks: without any one of the rules two checkpoints conflict, and the search shows how.
func TestModelFindsForks(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]model{
		"the note is not looked at":                    {directory: allShare, id: different, ignoreNote: true},
		"the note is written after the database":       {directory: allShare, id: different, insertFirst: true},
		"each replica signs with any directory":        {directory: allTheirs, id: different, ignoreID: true},
		"the database's checkpoint is not looked at":   {directory: oneCopied, id: sameID, oldCopy: true, ignoreLast: true},
		"a copy has seen what the database then loses": {directory: oneCopied, id: sameID, copies: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.events, m.losses = 2, 1
			if run := m.explore(t); run.fork == "" {
				t.Errorf("no fork was found in %d states", run.states)
			} else {
				t.Log(run.fork)
			}
		})
	}
}

// TestModelFindsFalseAccusations: a signer that does not wait for events to be sealed again after a crash reports a
// loss.
func TestModelFindsFalseAccusations(t *testing.T) {
	t.Parallel()
	m := model{directory: allShare, id: different, events: 2, eager: true}
	if run := m.explore(t); run.accused == 0 {
		t.Errorf("%+v", run)
	}
}
