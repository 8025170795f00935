package access

import (
	"github.com/jackc/pgx/v5"
)

// query reads whose keys have one of the SHA-256 in $1. Keys that do not exist or were revoked have no row.
type query struct {
	sql  string
	scan func(row pgx.CollectableRow) (hash []byte, e entry, err error)
}

var principals = query{
	sql: `SELECT k.key_hash, k.key_id, k.expires_at, i.integration_id, i.name, i.enabled, i.can_create_novels, i.can_post,
       i.posts_per_minute, i.novels_per_minute, i.novel_updates_per_minute, i.review
FROM api_keys k JOIN integrations i USING (integration_id)
WHERE k.key_hash = ANY($1) AND k.revoked_at IS NULL`,
	scan: func(row pgx.CollectableRow) (hash []byte, e entry, err error) {
		p := &Principal{}
		e.principal = p
		err = row.Scan(&hash, &p.KeyID, &e.expiresAt, &p.IntegrationID, &p.Name, &p.Enabled,
			&p.CanCreateNovels, &p.CanPost, &p.PostsPerMinute, &p.NovelsPerMinute, &p.NovelUpdatesPerMinute, &p.Review)
		e.keyID = p.KeyID
		return hash, e, err
	},
}

var persons = query{
	sql: `SELECT key_hash, key_id, expires_at, person_id, role, name
FROM person_keys
WHERE key_hash = ANY($1) AND revoked_at IS NULL`,
	scan: func(row pgx.CollectableRow) (hash []byte, e entry, err error) {
		p := &Person{}
		e.person = p
		err = row.Scan(&hash, &p.KeyID, &e.expiresAt, &p.PersonID, &p.Role, &p.Name)
		e.keyID = p.KeyID
		return hash, e, err
	},
}
