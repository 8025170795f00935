package novel

import (
	"cmp"

	"github.com/google/uuid"

	"novelgate/events"
)

// Upsert is a partner's command to create a novel or to update the one that it created.
type Upsert struct {
	IntegrationID uuid.UUID
	Review        bool   // the integration is under review: its new novels are pending
	Title         string // cleaned by title.Clean; used on creation
	Slug          string // used on creation, unless the title got one when staff barred it
	Fields        Fields
}

// Outcome is the rule of SPEC section 3 that applied to an upsert.
type Outcome int

// Outcomes.
const (
	Created   Outcome = iota + 1 // rule 1: the title was unknown
	Updated                      // rule 2: the integration's own novel, updated
	Canonical                    // rule 3: the host platform's novel, unchanged
	Foreign                      // rule 4: another integration's novel, unchanged
)

// String returns the name of an outcome.
func (o Outcome) String() string {
	return map[Outcome]string{Created: "created", Updated: "updated", Canonical: "canonical", Foreign: "foreign"}[o]
}

// Upsert decides an upsert. It returns the rule that applies and its event: nil for Canonical and Foreign; for Updated
// a NovelUpdated, also when no field changes. It refuses a rejected title with ErrRejected.
func (n Novel) Upsert(cmd Upsert) (Outcome, events.Event, error) {
	if !n.Exists() { // neither a novel nor a barred title
		return Created, n.create(cmd), nil
	}
	outcome, err := n.OutcomeFor(cmd.IntegrationID)
	if err != nil || outcome != Updated {
		return outcome, nil, err
	}
	return Updated, n.Details.changed(cmd.Fields), nil
}

// OutcomeFor returns the outcome of an upsert of an existing novel by an integration, which does not depend on the
// fields. It refuses a rejected title with ErrRejected.
func (n Novel) OutcomeFor(integrationID uuid.UUID) (Outcome, error) {
	switch {
	case n.State == Rejected:
		return 0, ErrRejected
	case n.State == Published || n.OwnerID == nil:
		return Canonical, nil
	case *n.OwnerID == integrationID:
		return Updated, nil
	default:
		return Foreign, nil
	}
}

func (n Novel) create(cmd Upsert) events.NovelCreated {
	state := Approved
	if cmd.Review {
		state = Pending
	}
	d := Details{Author: DefaultAuthor}.with(cmd.Fields)
	return events.NovelCreated{
		Title: cmd.Title, Slug: cmp.Or(n.Slug, cmd.Slug), Author: d.Author, Synopsis: d.Synopsis, CoverURL: d.CoverURL,
		Genres: d.Genres, Language: d.Language, ReadingStatus: d.ReadingStatus, OwnerID: &cmd.IntegrationID,
		State: string(state),
	}
}

// SlugCandidates returns the slugs that a novel may get, best first: base, which is the result of title.Slug, base with
// the first 8 characters of the novel's identifier, and base with the whole identifier. If base is empty, as for a
// title of emoji, only the last two, with "novel" as base.
func SlugCandidates(base string, novelID uuid.UUID) []string {
	id := novelID.String()
	if base == "" {
		return []string{"novel-" + id[:8], "novel-" + id}
	}
	return []string{base, base + "-" + id[:8], base + "-" + id}
}

// PickSlug returns the first candidate that is not taken, or else the last one, which ends with the whole identifier.
// That one is taken only if another title contains this very identifier; then the unique constraint of slugs refuses
// the command.
func PickSlug(candidates []string, taken map[string]struct{}) string {
	for _, candidate := range candidates {
		if _, ok := taken[candidate]; !ok {
			return candidate
		}
	}
	return candidates[len(candidates)-1]
}
