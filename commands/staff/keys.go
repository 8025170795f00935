package staff

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/database"
)

// Key is an API key of an integration as staff see it, without its secret.
type Key struct {
	ID            uuid.UUID  `json:"keyId"`
	IntegrationID uuid.UUID  `json:"integrationId"`
	Prefix        string     `json:"prefix"`
	CreatedAt     time.Time  `json:"createdAt"`
	ExpiresAt     *time.Time `json:"expiresAt"`
	RevokedAt     *time.Time `json:"revokedAt"`
	LastUsedAt    *time.Time `json:"lastUsedAt"`
}

// IssueKey issues another key to an integration. A key with a lifetime of 0 never expires. The secret is returned and
// never stored.
func (s *Staff) IssueKey(
	ctx context.Context, integrationID uuid.UUID, lifetime time.Duration,
) (Key, auth.Secret, error) {
	return s.issueKey(ctx, integrationID, lifetime, principal.Integration.IssueKey)
}

// RotateKey replaces a key with a new one. The old key expires after the overlap.
func (s *Staff) RotateKey(ctx context.Context, keyID uuid.UUID, overlap time.Duration) (Key, auth.Secret, error) {
	old, err := s.Key(ctx, keyID)
	if err != nil {
		return Key{}, auth.Secret{}, err
	}
	return s.issueKey(ctx, old.IntegrationID, 0,
		func(i principal.Integration, issued events.KeyIssued) ([]events.Event, error) {
			return i.RotateKey(keyID, issued, overlap)
		})
}

// issueKey makes a key and executes the decision to issue it.
func (s *Staff) issueKey(
	ctx context.Context, integrationID uuid.UUID, lifetime time.Duration,
	decide func(principal.Integration, events.KeyIssued) ([]events.Event, error),
) (Key, auth.Secret, error) {
	kind := auth.PartnerKey
	sandbox, err := database.IsSandbox(ctx, s.Pool)
	if err != nil {
		return Key{}, auth.Secret{}, err
	}
	if sandbox {
		kind = auth.SandboxKey
	}
	issued, secret := s.newKey(kind, lifetime)
	_, err = s.decideIntegration(ctx, integrationID,
		func(i principal.Integration) ([]events.Event, error) { return decide(i, issued) })
	if err != nil {
		return Key{}, auth.Secret{}, err
	}
	key, err := s.Key(ctx, issued.KeyID)
	return key, secret, err
}

// newKey generates a key without issuing it.
func (s *Staff) newKey(kind auth.Kind, lifetime time.Duration) (events.KeyIssued, auth.Secret) {
	secret := auth.NewKey(kind)
	hash := secret.Hash()
	issued := events.KeyIssued{
		KeyID: uuid.Must(uuid.NewV7()), Prefix: secret.Prefix(), SHA256: hash[:],
		IssuedAt: s.Now().Truncate(time.Microsecond),
	}
	if lifetime != 0 {
		// Rounded up to whole microseconds, because the columns have no smaller unit.
		expires := issued.IssuedAt.Add(lifetime + time.Microsecond - 1).Truncate(time.Microsecond)
		issued.ExpiresAt = &expires
	}
	return issued, secret
}

// RevokeKey revokes a key. Every replica rejects it within a second.
func (s *Staff) RevokeKey(ctx context.Context, keyID uuid.UUID, reason string) (Key, error) {
	if err := checkReason(reason); err != nil {
		return Key{}, err
	}
	key, err := s.Key(ctx, keyID)
	if err != nil {
		return Key{}, err
	}
	_, err = s.decideIntegration(ctx, key.IntegrationID,
		func(i principal.Integration) ([]events.Event, error) { return i.RevokeKey(keyID, reason, s.Now()) })
	if err != nil {
		return Key{}, err
	}
	return s.Key(ctx, keyID)
}

const keyColumns = `SELECT k.key_id, k.integration_id, k.prefix, k.issued_at, k.expires_at, k.revoked_at, u.last_used_at
FROM api_keys k LEFT JOIN api_key_use u USING (key_id)`

// Key finds a key; principal.ErrKeyNotFound when there is none.
func (s *Staff) Key(ctx context.Context, keyID uuid.UUID) (Key, error) {
	return find(ctx, s, "key", principal.ErrKeyNotFound, pgx.RowToStructByPos[Key], keyColumns+` WHERE k.key_id = $1`,
		keyID)
}

// ListKeys lists up to limit keys after the key with an id, oldest first, of one integration or, with uuid.Nil, of all.
// A limit of 0 lists all.
func (s *Staff) ListKeys(ctx context.Context, integrationID, after uuid.UUID, limit int) ([]Key, error) {
	return database.Collect(ctx, s.Pool, "keys", pgx.RowToStructByPos[Key], keyColumns+`
WHERE ($1::uuid = '00000000-0000-0000-0000-000000000000' OR k.integration_id = $1)
    AND k.key_id > $2
ORDER BY k.key_id LIMIT nullif($3::int, 0)`, integrationID, after, limit)
}

// UserKey is the API key of a staff user as staff see it, without its secret.
type UserKey struct {
	ID         uuid.UUID  `json:"keyId"`
	Role       string     `json:"role"` // principal.Staff or principal.Auditor
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`
	RevokedAt  *time.Time `json:"revokedAt"`
	LastUsedAt *time.Time `json:"lastUsedAt"`
}

// Usable reports whether the key is valid at a time.
func (k UserKey) Usable(at time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || at.Before(*k.ExpiresAt))
}

// keyKinds has the kind of a staff user's key, by role.
var keyKinds = map[string]auth.Kind{principal.Staff: auth.StaffKey, principal.Auditor: auth.AuditorKey}

// IssueUserKey issues a key to a staff user. The first key creates the staff user. A key with a lifetime of 0 never
// expires. The secret is returned and never stored.
func (s *Staff) IssueUserKey(
	ctx context.Context, role, name string, lifetime time.Duration,
) (UserKey, auth.Secret, error) {
	kind, ok := keyKinds[role]
	if !ok {
		return UserKey{}, auth.Secret{}, principal.ErrRole
	}
	key, secret := s.newKey(kind, lifetime)
	issued := events.PersonKeyIssued{
		Name: strings.TrimSpace(name), Role: role,
		KeyID: key.KeyID, Prefix: key.Prefix, SHA256: key.SHA256, IssuedAt: key.IssuedAt, ExpiresAt: key.ExpiresAt,
	}
	err := decideOn(ctx, s, stream{events.PersonStream, events.PersonID(role, issued.Name)}, principal.FoldUser,
		func(u principal.User) ([]events.Event, error) { return u.IssueKey(issued) })
	if err != nil {
		return UserKey{}, auth.Secret{}, err
	}
	made, err := s.userKey(ctx, issued.KeyID)
	return made, secret, err
}

// RevokeUserKey revokes a key of a staff user. Every replica rejects it within a second.
func (s *Staff) RevokeUserKey(ctx context.Context, keyID uuid.UUID, reason string) (UserKey, error) {
	if err := checkReason(reason); err != nil {
		return UserKey{}, err
	}
	key, err := s.userKey(ctx, keyID)
	if err != nil {
		return UserKey{}, err
	}
	err = decideOn(ctx, s, stream{events.PersonStream, events.PersonID(key.Role, key.Name)}, principal.FoldUser,
		func(u principal.User) ([]events.Event, error) { return u.RevokeKey(keyID, reason, s.Now()) })
	if err != nil {
		return UserKey{}, err
	}
	return s.userKey(ctx, keyID)
}

const userKeyColumns = `SELECT k.key_id, k.role, k.name, k.prefix, k.issued_at, k.expires_at, k.revoked_at, u.last_used_at
FROM person_keys k LEFT JOIN api_key_use u USING (key_id)`

func (s *Staff) userKey(ctx context.Context, keyID uuid.UUID) (UserKey, error) {
	return find(ctx, s, "key", principal.ErrKeyNotFound, pgx.RowToStructByPos[UserKey],
		userKeyColumns+` WHERE k.key_id = $1`, keyID)
}

// UserKeys lists the keys of a role, or of both when role is "", oldest first.
func (s *Staff) UserKeys(ctx context.Context, role string) ([]UserKey, error) {
	return database.Collect(ctx, s.Pool, "keys", pgx.RowToStructByPos[UserKey],
		userKeyColumns+` WHERE $1 = '' OR k.role = $1 ORDER BY k.issued_at, k.key_id`, role)
}
