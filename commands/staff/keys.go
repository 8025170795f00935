package staff

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/internal/apikey"
)

// Key is an API key as staff see it, without its secret.
type Key struct {
	ID            uuid.UUID  `json:"keyId"`
	IntegrationID uuid.UUID  `json:"integrationId"`
	Prefix        string     `json:"prefix"`
	CreatedAt     time.Time  `json:"createdAt"`
	ExpiresAt     *time.Time `json:"expiresAt"`
	RevokedAt     *time.Time `json:"revokedAt"`
	LastUsedAt    *time.Time `json:"lastUsedAt"`
}

// IssueKey gives an integration one more key. A key with a lifetime of 0 never expires. The secret is returned and
// never stored.
func (s *Staff) IssueKey(
	ctx context.Context, integrationID uuid.UUID, lifetime time.Duration,
) (Key, apikey.Secret, error) {
	issued, secret, err := s.newKey(lifetime)
	if err != nil {
		return Key{}, apikey.Secret{}, err
	}
	err = s.appendDecided(ctx, stream{events.IntegrationStream, integrationID},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return principal.FoldIntegration(integrationID, history).IssueKey(issued)
		})
	if err != nil {
		return Key{}, apikey.Secret{}, err
	}
	key, err := s.key(ctx, issued.KeyID)
	return key, secret, err
}

// newKey returns a new key, which is not issued yet.
func (s *Staff) newKey(lifetime time.Duration) (events.KeyIssued, apikey.Secret, error) {
	secret, err := apikey.New(apikey.Partner)
	if err != nil {
		return events.KeyIssued{}, apikey.Secret{}, fmt.Errorf("make key: %w", err)
	}
	hash := secret.Hash()
	issued := events.KeyIssued{
		KeyID: uuid.Must(uuid.NewV7()), Prefix: secret.Prefix(), SHA256: hash[:],
		IssuedAt: s.Now().Truncate(time.Microsecond),
	}
	if lifetime != 0 {
		// Rounded up to whole microseconds, like the columns
		expires := issued.IssuedAt.Add(lifetime + time.Microsecond - 1).Truncate(time.Microsecond)
		issued.ExpiresAt = &expires
	}
	return issued, secret, nil
}

// RotateKey replaces a key with a new one. The old key expires after the overlap.
func (s *Staff) RotateKey(ctx context.Context, keyID uuid.UUID, overlap time.Duration) (Key, apikey.Secret, error) {
	old, err := s.key(ctx, keyID)
	if err != nil {
		return Key{}, apikey.Secret{}, err
	}
	issued, secret, err := s.newKey(0)
	if err != nil {
		return Key{}, apikey.Secret{}, err
	}
	err = s.appendDecided(ctx, stream{events.IntegrationStream, old.IntegrationID},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return principal.FoldIntegration(old.IntegrationID, history).RotateKey(keyID, issued, overlap)
		})
	if err != nil {
		return Key{}, apikey.Secret{}, err
	}
	key, err := s.key(ctx, issued.KeyID)
	return key, secret, err
}

// RevokeKey revokes a key. Every replica rejects it within a second.
func (s *Staff) RevokeKey(ctx context.Context, keyID uuid.UUID, reason string) (Key, error) {
	if err := checkReason(reason); err != nil {
		return Key{}, err
	}
	key, err := s.key(ctx, keyID)
	if err != nil {
		return Key{}, err
	}
	err = s.appendDecided(ctx, stream{events.IntegrationStream, key.IntegrationID},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return principal.FoldIntegration(key.IntegrationID, history).RevokeKey(keyID, reason, s.Now())
		})
	if err != nil {
		return Key{}, err
	}
	return s.key(ctx, keyID)
}

const keyColumns = `SELECT k.key_id, k.integration_id, k.prefix, k.issued_at, k.expires_at, k.revoked_at, u.last_used_at
FROM api_keys k LEFT JOIN api_key_use u USING (key_id)`

func (s *Staff) key(ctx context.Context, keyID uuid.UUID) (Key, error) {
	return find(ctx, s, "key", principal.ErrKeyNotFound, scanKey, keyColumns+` WHERE k.key_id = $1`, keyID)
}

// Keys lists the keys of an integration, or of all when integrationID is uuid.Nil, oldest first.
func (s *Staff) Keys(ctx context.Context, integrationID uuid.UUID) ([]Key, error) {
	return s.ListKeys(ctx, integrationID, Place{}, 0)
}

const listKeysSQL = keyColumns + `
WHERE ($1::uuid = '00000000-0000-0000-0000-000000000000' OR k.integration_id = $1)
    AND (k.issued_at, k.key_id) > ($2, $3)
ORDER BY k.issued_at, k.key_id LIMIT nullif($4::int, 0)`

// ListKeys lists up to limit keys after a place, of one integration or of all, like Keys. A limit of 0 lists all.
func (s *Staff) ListKeys(ctx context.Context, integrationID uuid.UUID, after Place, limit int) ([]Key, error) {
	return list(ctx, s, "keys", scanKey, listKeysSQL, integrationID, after.At, after.ID, limit)
}

// Place returns the key's place in the list.
func (k Key) Place() Place { return Place{k.CreatedAt, k.ID} }

func scanKey(row pgx.CollectableRow) (Key, error) {
	var k Key
	if err := row.Scan(&k.ID, &k.IntegrationID, &k.Prefix, &k.CreatedAt, &k.ExpiresAt, &k.RevokedAt,
		&k.LastUsedAt); err != nil {
		return Key{}, fmt.Errorf("scan key: %w", err)
	}
	return k, nil
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

	userID uuid.UUID
}

// Usable reports whether the key is valid at a time.
func (k UserKey) Usable(at time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || at.Before(*k.ExpiresAt))
}

// kinds of keys, by role.
var kinds = map[string]apikey.Kind{principal.Staff: apikey.Staff, principal.Auditor: apikey.Auditor}

// IssueUserKey issues a key to a staff user. The first key creates the staff user. A key with a lifetime of 0 never
// expires. The secret is returned and never stored.
func (s *Staff) IssueUserKey(
	ctx context.Context, role, name string, lifetime time.Duration,
) (UserKey, apikey.Secret, error) {
	kind, ok := kinds[role]
	if !ok {
		return UserKey{}, apikey.Secret{}, principal.ErrRole
	}
	secret, err := apikey.New(kind)
	if err != nil {
		return UserKey{}, apikey.Secret{}, fmt.Errorf("make key: %w", err)
	}
	hash := secret.Hash()
	issued := events.PersonKeyIssued{
		Name: strings.TrimSpace(name), Role: role,
		KeyID: uuid.Must(uuid.NewV7()), Prefix: secret.Prefix(), SHA256: hash[:],
		IssuedAt: s.Now().Truncate(time.Microsecond),
	}
	if lifetime != 0 {
		// Rounded up to whole microseconds, like the columns
		expires := issued.IssuedAt.Add(lifetime + time.Microsecond - 1).Truncate(time.Microsecond)
		issued.ExpiresAt = &expires
	}
	err = s.decideUser(ctx, events.PersonID(role, issued.Name),
		func(u principal.User) ([]events.Event, error) { return u.IssueKey(issued) })
	if err != nil {
		return UserKey{}, apikey.Secret{}, err
	}
	key, err := s.userKey(ctx, issued.KeyID)
	return key, secret, err
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
	err = s.decideUser(ctx, key.userID,
		func(u principal.User) ([]events.Event, error) { return u.RevokeKey(keyID, reason, s.Now()) })
	if err != nil {
		return UserKey{}, err
	}
	return s.userKey(ctx, keyID)
}

func (s *Staff) decideUser(
	ctx context.Context, id uuid.UUID, decide func(principal.User) ([]events.Event, error),
) error {
	return s.appendDecided(ctx, stream{events.PersonStream, id},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return decide(principal.FoldUser(history))
		})
}

const userKeyColumns = `SELECT k.key_id, k.person_id, k.role, k.name, k.prefix, k.issued_at, k.expires_at, k.revoked_at, u.last_used_at
FROM person_keys k LEFT JOIN api_key_use u USING (key_id)`

func (s *Staff) userKey(ctx context.Context, keyID uuid.UUID) (UserKey, error) {
	return find(ctx, s, "key", principal.ErrKeyNotFound, scanUserKey, userKeyColumns+` WHERE k.key_id = $1`, keyID)
}

// UserKeys lists the keys of a role, or of both when role is "", oldest first.
func (s *Staff) UserKeys(ctx context.Context, role string) ([]UserKey, error) {
	return list(ctx, s, "keys", scanUserKey,
		userKeyColumns+` WHERE $1 = '' OR k.role = $1 ORDER BY k.issued_at, k.key_id`, role)
}

func scanUserKey(row pgx.CollectableRow) (UserKey, error) {
	var k UserKey
	if err := row.Scan(&k.ID, &k.userID, &k.Role, &k.Name, &k.Prefix, &k.CreatedAt, &k.ExpiresAt, &k.RevokedAt,
		&k.LastUsedAt); err != nil {
		return UserKey{}, fmt.Errorf("scan key: %w", err)
	}
	return k, nil
}
