package staff

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/staffuser"
	"novelgate/events"
	"novelgate/internal/apikey"
)

// UserKey is the API key of a staff user as staff see it, without its secret.
type UserKey struct {
	ID         uuid.UUID  `json:"keyId"`
	Role       string     `json:"role"` // staffuser.Staff or staffuser.Auditor
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
var kinds = map[string]apikey.Kind{staffuser.Staff: apikey.Staff, staffuser.Auditor: apikey.Auditor}

// IssueUserKey issues a key to a staff user. The first key creates the staff user. A key with a lifetime of 0 never
// expires. The secret is returned and never stored.
func (s *Staff) IssueUserKey(
	ctx context.Context, role, name string, lifetime time.Duration,
) (UserKey, apikey.Secret, error) {
	kind, ok := kinds[role]
	if !ok {
		return UserKey{}, apikey.Secret{}, staffuser.ErrRole
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
		func(u staffuser.User) ([]events.Event, error) { return u.Issue(issued) })
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
		func(u staffuser.User) ([]events.Event, error) { return u.Revoke(keyID, reason, s.Now()) })
	if err != nil {
		return UserKey{}, err
	}
	return s.userKey(ctx, keyID)
}

func (s *Staff) decideUser(
	ctx context.Context, id uuid.UUID, decide func(staffuser.User) ([]events.Event, error),
) error {
	return s.appendDecided(ctx, stream{events.PersonStream, id},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return decide(staffuser.Fold(history))
		})
}

const userKeyColumns = `SELECT k.key_id, k.person_id, k.role, k.name, k.prefix, k.issued_at, k.expires_at, k.revoked_at, u.last_used_at
FROM person_keys k LEFT JOIN api_key_use u USING (key_id)`

func (s *Staff) userKey(ctx context.Context, keyID uuid.UUID) (UserKey, error) {
	return find(ctx, s, "key", staffuser.ErrKeyNotFound, scanUserKey, userKeyColumns+` WHERE k.key_id = $1`, keyID)
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
