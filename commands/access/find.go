package access

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// finder reads whose key has this SHA-256. It fails with pgx.ErrNoRows when there is none, or it was revoked.
type finder func(ctx context.Context, pool *pgxpool.Pool, hash []byte) (entry, error)

const findPrincipalSQL = `SELECT k.key_id, k.expires_at, i.integration_id, i.name, i.enabled, i.can_create_novels, i.can_post,
       i.posts_per_minute, i.novels_per_minute, i.review
FROM api_keys k JOIN integrations i USING (integration_id)
WHERE k.key_hash = $1 AND k.revoked_at IS NULL`

func findPrincipal(ctx context.Context, pool *pgxpool.Pool, hash []byte) (entry, error) {
	p := &Principal{}
	e := entry{principal: p}
	err := pool.QueryRow(ctx, findPrincipalSQL, hash).Scan(&p.KeyID, &e.expiresAt, &p.IntegrationID, &p.Name, &p.Enabled,
		&p.CanCreateNovels, &p.CanPost, &p.PostsPerMinute, &p.NovelsPerMinute, &p.Review)
	e.keyID = p.KeyID
	return e, err
}

const findPersonSQL = `SELECT key_id, expires_at, person_id, role, name
FROM person_keys
WHERE key_hash = $1 AND revoked_at IS NULL`

func findPerson(ctx context.Context, pool *pgxpool.Pool, hash []byte) (entry, error) {
	p := &Person{}
	e := entry{person: p}
	err := pool.QueryRow(ctx, findPersonSQL, hash).Scan(&p.KeyID, &e.expiresAt, &p.PersonID, &p.Role, &p.Name)
	e.keyID = p.KeyID
	return e, err
}
