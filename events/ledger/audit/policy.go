package audit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"novelgate/events/ledger"
)

// Policy says who must have signed and cosigned a checkpoint (C2SP tlog-policy). Create it with ParsePolicy.
type Policy struct {
	// Logs are verifier keys of logs: one of them must have signed the checkpoint. None: any log.
	Logs []string

	witnesses []witness
	quorum    component // nil: no cosignature is demanded
}

// component is a witness or a group of components.
type component interface {
	cosigned(by map[string]bool) bool
}

type witness struct{ key string }

func (w witness) cosigned(by map[string]bool) bool { return by[w.key] }

type group struct {
	threshold int
	members   []component
}

func (g group) cosigned(by map[string]bool) bool {
	count := 0
	for _, member := range g.members {
		if member.cosigned(by) {
			count++
		}
	}
	return count >= g.threshold
}

// ErrPolicy is returned for text that is not a policy.
var ErrPolicy = errors.New("not a policy")

// policyParser has the definitions so far. The parser of transparency-dev/formats is not used, because it demands URLs
// of witnesses and accepts policies that demand nothing, such as thresholds of 0 and a witness that counts twice.
type policyParser struct {
	Policy

	names     map[string]component
	members   map[string]bool // names that are in a group
	keys      map[string]bool // public keys, each after the kind of its line
	hasQuorum bool
}

// ParsePolicy reads a policy. It fails with ErrPolicy for text that C2SP tlog-policy does not allow, and for keys of
// logs other than Ed25519.
func ParsePolicy(text []byte) (*Policy, error) {
	p := policyParser{names: map[string]component{}, members: map[string]bool{}, keys: map[string]bool{}}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrPolicy, number, err)
		}
	}
	if !p.hasQuorum {
		return nil, fmt.Errorf("%w: it has no line with the quorum", ErrPolicy)
	}
	return &p.Policy, nil
}

var (
	errPolicyCharacter = errors.New("a control character")
	errPolicyLine      = errors.New("neither log KEY [URL], witness NAME KEY [URL], " +
		"group NAME all|any|NUMBER MEMBER… nor quorum NAME")
	errPolicyTwice     = errors.New("occurs twice")
	errPolicyReserved  = errors.New("is reserved")
	errPolicyName      = errors.New("is not defined on an earlier line")
	errPolicyThreshold = errors.New("not a threshold for so many members")
)

func (p *policyParser) line(line string) error {
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return errPolicyCharacter
	}
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return nil
	}
	switch kind, n := fields[0], len(fields)-1; {
	case kind == "log" && (n == 1 || n == 2):
		if _, err := note.NewVerifier(fields[1]); err != nil {
			return fmt.Errorf("%w of a log: %q", ledger.ErrKey, fields[1])
		}
		p.Logs = append(p.Logs, fields[1])
		return p.addKey(kind, fields[1])
	case kind == "witness" && (n == 2 || n == 3):
		if _, err := ledger.NewWitnessVerifier(fields[2]); err != nil {
			return err
		}
		w := witness{fields[2]}
		p.witnesses = append(p.witnesses, w)
		return errors.Join(p.addKey(kind, w.key), p.define(fields[1], w))
	case kind == "group" && n >= 3:
		return p.group(fields[1], fields[2], fields[3:])
	case kind == "quorum" && n == 1:
		if p.hasQuorum {
			return fmt.Errorf("the quorum %w", errPolicyTwice)
		}
		p.hasQuorum = true
		p.quorum = p.names[fields[1]]
		if p.quorum == nil && fields[1] != none {
			return fmt.Errorf("%q %w", fields[1], errPolicyName)
		}
		return nil
	}
	return errPolicyLine
}

// none is the quorum without witnesses.
const none = "none"

// addKey records a public key. It refuses one that the policy already has, maybe under another name.
func (p *policyParser) addKey(kind, key string) error {
	raw, _ := base64.StdEncoding.DecodeString(strings.SplitN(key, "+", 3)[2]) // the key was parsed before
	public := kind + string(raw[1:])
	if p.keys[public] {
		return fmt.Errorf("%s %q %w", kind, key, errPolicyTwice)
	}
	p.keys[public] = true
	return nil
}

func (p *policyParser) define(name string, c component) error {
	if name == none {
		return fmt.Errorf("the name %q %w", name, errPolicyReserved)
	}
	if p.names[name] != nil {
		return fmt.Errorf("the name %q %w", name, errPolicyTwice)
	}
	p.names[name] = c
	return nil
}

func (p *policyParser) group(name, threshold string, members []string) error {
	var g group
	for _, member := range members {
		c := p.names[member]
		if c == nil {
			return fmt.Errorf("%q %w", member, errPolicyName)
		}
		if p.members[member] {
			return fmt.Errorf("the member %q %w", member, errPolicyTwice)
		}
		p.members[member] = true
		g.members = append(g.members, c)
	}
	switch threshold {
	case "any":
		g.threshold = 1
	case "all":
		g.threshold = len(members)
	default:
		n, err := strconv.ParseUint(threshold, 10, 16)
		if err != nil || n < 1 || int(n) > len(members) {
			return fmt.Errorf("%q: %w", threshold, errPolicyThreshold)
		}
		g.threshold = int(n)
	}
	return p.define(name, g)
}

// applyPolicy checks a checkpoint against the policy.
func (v *verification) applyPolicy(c ledger.Checkpoint) error {
	p := v.Policy
	signed := len(p.Logs) == 0
	for _, key := range p.Logs {
		by, err := c.SignedBy(key)
		if err != nil {
			return err
		}
		signed = signed || by
	}
	if !signed {
		v.add(Fault{Part: Signature, Count: 1, Detail: "the checkpoint bears no valid signature of a log of the policy"})
	}
	by := map[string]bool{}
	for _, w := range p.witnesses {
		verifier, err := ledger.NewWitnessVerifier(w.key)
		if err != nil {
			return err
		}
		if _, err := note.Open(c.Note, note.VerifierList(verifier)); err == nil {
			by[w.key] = true
			v.report.CosignedBy = append(v.report.CosignedBy, w.key)
		}
	}
	if p.quorum != nil && !p.quorum.cosigned(by) {
		v.add(Fault{Part: Quorum, Count: 1, Detail: fmt.Sprintf(
			"%d of the %d witnesses have cosigned the checkpoint, and the policy demands others or more",
			len(by), len(p.witnesses))})
	}
	return nil
}
