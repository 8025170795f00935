package reference

import (
	"github.com/google/uuid"

	"novelgate/events"
)

type integrationRow struct {
	IntegrationID         uuid.UUID `json:"integration_id"`
	Name                  string    `json:"name"`
	Enabled               bool      `json:"enabled"`
	CanCreateNovels       bool      `json:"can_create_novels"`
	CanPost               bool      `json:"can_post"`
	PostsPerMinute        int       `json:"posts_per_minute"`
	NovelsPerMinute       int       `json:"novels_per_minute"`
	NovelUpdatesPerMinute *int      `json:"novel_updates_per_minute"`
	CanImport             bool      `json:"can_import"`
	LinesPerMinute        int       `json:"lines_per_minute"`
	Review                bool      `json:"review"`
	StreamVersion         int       `json:"stream_version"`
	RegisteredAt          *moment   `json:"registered_at"`
}

type keyRow struct {
	KeyID         uuid.UUID `json:"key_id"`
	KeyHash       string    `json:"key_hash"`
	Prefix        string    `json:"prefix"`
	IntegrationID uuid.UUID `json:"integration_id"`
	IssuedAt      *moment   `json:"issued_at"`
	ExpiresAt     *moment   `json:"expires_at"`
	RevokedAt     *moment   `json:"revoked_at"`
}

type personKeyRow struct {
	KeyID     uuid.UUID `json:"key_id"`
	KeyHash   string    `json:"key_hash"`
	Prefix    string    `json:"prefix"`
	PersonID  uuid.UUID `json:"person_id"`
	Role      string    `json:"role"`
	Name      string    `json:"name"`
	IssuedAt  *moment   `json:"issued_at"`
	ExpiresAt *moment   `json:"expires_at"`
	RevokedAt *moment   `json:"revoked_at"`
}

type decisionRow struct {
	AuthorID         uuid.UUID `json:"author_id"`
	IntegrationID    uuid.UUID `json:"integration_id"`
	ExternalUUID     *string   `json:"external_uuid"`
	MemberID         *string   `json:"member_id"`
	Blocked          bool      `json:"blocked"`
	PostsHiddenUntil *moment   `json:"posts_hidden_until"`
	StreamVersion    int       `json:"stream_version"`
}

func (f *Fold) integration(r *events.Recorded) {
	if e, ok := r.Event.(events.IntegrationRegistered); ok {
		f.integrations[r.StreamID] = &integrationRow{
			IntegrationID: r.StreamID, Name: e.Name, Enabled: true, PostsPerMinute: 60, NovelsPerMinute: 60,
			LinesPerMinute: 60_000, StreamVersion: r.StreamVersion, RegisteredAt: at(e.RegisteredAt),
		}
		return
	}
	i := f.integrations[r.StreamID]
	if i == nil {
		return
	}
	i.StreamVersion = r.StreamVersion
	setCapability := func(capability string, enabled bool) {
		switch capability {
		case "posts":
			i.CanPost = enabled
		case "import":
			i.CanImport = enabled
		default:
			i.CanCreateNovels = enabled
		}
	}
	switch e := r.Event.(type) {
	case events.IntegrationRenamed:
		i.Name = e.Name
	case events.IntegrationEnabled:
		i.Enabled = true
	case events.IntegrationDisabled:
		i.Enabled = false
	case events.CapabilityEnabled:
		setCapability(e.Capability, true)
	case events.CapabilityDisabled:
		setCapability(e.Capability, false)
	case events.RateLimitSet:
		switch e.Operation {
		case "posts":
			i.PostsPerMinute = e.PerMinute
		case "lines":
			i.LinesPerMinute = e.PerMinute
		default:
			i.NovelsPerMinute = e.PerMinute
		}
		if e.Updates != nil {
			i.NovelUpdatesPerMinute = e.Updates.PerMinute
		}
	case events.ReviewModeSet:
		i.Review = e.Review
	case events.KeyIssued:
		f.keys[e.KeyID] = &keyRow{
			KeyID: e.KeyID, KeyHash: bytesText(e.SHA256), Prefix: e.Prefix, IntegrationID: r.StreamID, IssuedAt: at(e.IssuedAt),
			ExpiresAt: atOrNull(e.ExpiresAt),
		}
	case events.KeyExpirySet:
		f.keys[e.KeyID].ExpiresAt = at(e.ExpiresAt)
	case events.KeyRevoked:
		if k := f.keys[e.KeyID]; k.RevokedAt == nil {
			k.RevokedAt = at(e.RevokedAt)
		}
	default: // changes only the version
	}
}

func (f *Fold) person(r *events.Recorded) {
	switch e := r.Event.(type) {
	case events.PersonKeyIssued:
		f.persons[e.KeyID] = &personKeyRow{
			KeyID: e.KeyID, KeyHash: bytesText(e.SHA256), Prefix: e.Prefix, PersonID: r.StreamID, Role: e.Role, Name: e.Name,
			IssuedAt: at(e.IssuedAt), ExpiresAt: atOrNull(e.ExpiresAt),
		}
	case events.PersonKeyRevoked:
		if k := f.persons[e.KeyID]; k.RevokedAt == nil {
			k.RevokedAt = at(e.RevokedAt)
		}
	default: // Add passes no other events
	}
}

// authorDecision folds a decision of staff about an author into author_decisions.
func (f *Fold) authorDecision(r *events.Recorded) {
	d := rowOf(f.decisions, r.StreamID, decisionRow{AuthorID: r.StreamID})
	d.StreamVersion = r.StreamVersion
	setAuthor := func(ref events.AuthorRef) {
		d.IntegrationID = ref.IntegrationID
		if ref.Author != nil {
			d.ExternalUUID = &ref.Author.ExternalUUID
		}
	}
	switch e := r.Event.(type) {
	case events.AuthorLinked:
		d.IntegrationID, d.MemberID = e.IntegrationID, nil
		if e.Link != nil {
			d.ExternalUUID, d.MemberID = &e.Link.ExternalUUID, textOrNull(e.Link.MemberID)
		}
	case events.AuthorUnlinked:
		setAuthor(e.AuthorRef)
		d.MemberID = nil
	case events.AuthorBlocked:
		setAuthor(e.AuthorRef)
		d.Blocked = true
	case events.AuthorUnblocked:
		setAuthor(e.AuthorRef)
		d.Blocked = false
	case events.AuthorPostsHidden:
		setAuthor(e.AuthorRef)
		d.PostsHiddenUntil = at(e.Until)
	case events.AuthorPostsRestored:
		setAuthor(e.AuthorRef)
		d.PostsHiddenUntil = nil
	case events.AuthorErased:
		d.IntegrationID, d.ExternalUUID, d.MemberID, d.PostsHiddenUntil = e.IntegrationID, nil, nil, nil
	default: // Add passes no other events
	}
}
