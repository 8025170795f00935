package staff

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/person"
	"novelgate/events"
	"novelgate/internal/apikey"
)

// PersonKey is the key of a member of staff or an auditor as staff see it: everything but the key.
type PersonKey struct {
	ID         uuid.UUID  `json:"keyId"`
	Role       string     `json:"role"` // person.Staff or person.Auditor
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`
	RevokedAt  *time.Time `json:"revokedAt"`
	LastUsedAt *time.Time `json:"lastUsedAt"`

	personID uuid.UUID
}

// Usable reports whether the key opens anything at a time.
func (k PersonKey) Usable(at time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || at.Before(*k.ExpiresAt))
}

// kinds of keys, by role.
var kinds = map[string]apikey.Kind{person.Staff: apikey.Staff, person.Auditor: apikey.Auditor}

// IssuePersonKey gives a person one more key; their first one makes them known. A lifetime of 0 never expires. The
// secret is in no other place than the return value.
func (s *Staff) IssuePersonKey(
	ctx context.Context, role, name string, lifetime time.Duration,
) (PersonKey, apikey.Secret, error) {
	kind, ok := kinds[role]
	if !ok {
		return PersonKey{}, apikey.Secret{}, person.ErrRole
	}
	secret, err := apikey.New(kind)
	if err != nil {
		return PersonKey{}, apikey.Secret{}, fmt.Errorf("make key: %w", err)
	}
	hash := secret.Hash()
	issued := events.PersonKeyIssued{
		Name: strings.TrimSpace(name), Role: role,
		KeyID: uuid.Must(uuid.NewV7()), Prefix: secret.Prefix(), SHA256: hash[:],
		IssuedAt: s.Now().Truncate(time.Microsecond),
	}
	if lifetime != 0 {
		expires := issued.IssuedAt.Add(lifetime + time.Microsecond - 1).Truncate(time.Microsecond) // as the tables keep it
		issued.ExpiresAt = &expires
	}
	err = s.decidePerson(ctx, events.PersonID(role, issued.Name),
		func(p person.Person) ([]events.Event, error) { return p.Issue(issued) })
	if err != nil {
		return PersonKey{}, apikey.Secret{}, err
	}
	key, err := s.personKey(ctx, issued.KeyID)
	return key, secret, err
}

// RevokePersonKey makes a person's key open nothing any more.
func (s *Staff) RevokePersonKey(ctx context.Context, keyID uuid.UUID, reason string) (PersonKey, error) {
	if err := checkReason(reason); err != nil {
		return PersonKey{}, err
	}
	key, err := s.personKey(ctx, keyID)
	if err != nil {
		return PersonKey{}, err
	}
	err = s.decidePerson(ctx, key.personID,
		func(p person.Person) ([]events.Event, error) { return p.Revoke(keyID, reason, s.Now()) })
	if err != nil {
		return PersonKey{}, err
	}
	return s.personKey(ctx, keyID)
}

func (s *Staff) decidePerson(
	ctx context.Context, id uuid.UUID, decide func(person.Person) ([]events.Event, error),
) error {
	return s.appendDecided(ctx, stream{events.PersonStream, id},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return decide(person.Fold(history))
		})
}

const personKeyColumns = `SELECT k.key_id, k.person_id, k.role, k.name, k.prefix, k.issued_at, k.expires_at, k.revoked_at, u.last_used_at
FROM person_keys k LEFT JOIN api_key_use u USING (key_id)`

func (s *Staff) personKey(ctx context.Context, keyID uuid.UUID) (PersonKey, error) {
	return find(ctx, s, "key", person.ErrKeyNotFound, scanPersonKey, personKeyColumns+` WHERE k.key_id = $1`, keyID)
}

// PersonKeys lists the keys of a role, or of both when role is "", oldest first.
func (s *Staff) PersonKeys(ctx context.Context, role string) ([]PersonKey, error) {
	return list(ctx, s, "keys", scanPersonKey,
		personKeyColumns+` WHERE $1 = '' OR k.role = $1 ORDER BY k.issued_at, k.key_id`, role)
}

func scanPersonKey(row pgx.CollectableRow) (PersonKey, error) {
	var k PersonKey
	if err := row.Scan(&k.ID, &k.personID, &k.Role, &k.Name, &k.Prefix, &k.CreatedAt, &k.ExpiresAt, &k.RevokedAt,
		&k.LastUsedAt); err != nil {
		return PersonKey{}, fmt.Errorf("scan key: %w", err)
	}
	return k, nil
}
