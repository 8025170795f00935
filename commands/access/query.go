package access

import (
	"github.com/jackc/pgx/v5"
)

// query reads the owners of the keys whose SHA-256 is in $1. Unknown and revoked keys have no row.
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

var staffUsers = query{
	sql: `SELECT key_hash, key_id, expires_at, person_id, role, name
FROM person_keys
WHERE key_hash = ANY($1) AND revoked_at IS NULL`,
	scan: func(row pgx.CollectableRow) (hash []byte, e entry, err error) {
		u := &StaffUser{}
		e.staffUser = u
		err = row.Scan(&hash, &u.KeyID, &e.expiresAt, &u.ID, &u.Role, &u.Name)
		e.keyID = u.KeyID
		return hash, e, err
	},
}
