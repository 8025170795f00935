package events

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Namespaces of the identifiers that derive from natural keys (UUID version 5, RFC 9562), one per stream type except
// posts (see PostID), authors (see AuthorID) and integrations (version 7). Two writers that race to create the same
// thing derive the same identifier, so one of them fails.
var (
	novelNamespace      = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e01")
	threadNamespace     = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e02")
	personNamespace     = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e05")
	projectionNamespace = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e10")
)

// derive returns the identifier of a name in a scope, which may be empty.
func derive(namespace uuid.UUID, scope []byte, name string) uuid.UUID {
	return uuid.NewSHA1(namespace, slices.Concat(scope, []byte(name)))
}

// NovelID derives the identifier of a new novel with this folded title. Find an existing novel by its title instead:
// folding may change with the Unicode version.
func NovelID(foldedTitle string) uuid.UUID { return derive(novelNamespace, nil, foldedTitle) }

// ThreadID derives the identifier of a novel's discussion thread.
func ThreadID(novelID uuid.UUID) uuid.UUID { return derive(threadNamespace, novelID[:], "") }

// PostID derives the identifier of the comment with an integration's idempotency key: UUID version 8 of SHA-256, which
// the database can compute, too. A constraint of the table events checks its first 48 bits.
func PostID(integrationID uuid.UUID, key string) uuid.UUID {
	return uuid.NewHash(sha256.New(), integrationID, []byte(key), 8)
}

// AuthorID derives the identifier of an author, as author_id in the database does: UUID version 8 of SHA-256. It
// outlives an erasure, so it depends on the author key of the integration: without that, nobody can test a guess of the
// erased identifier against it.
func AuthorID(authorKey, externalUUID string) uuid.UUID {
	digest := sha256.Sum256([]byte(authorKey + externalUUID))
	id := uuid.UUID(digest[:16])
	id[6], id[8] = 0x80, 0xa0 // version and variant, with the rest of their bytes: the database is slow with less
	return id
}

// PersonID derives the identifier of a staff user from role and name, ignoring the case of the name.
func PersonID(role, name string) uuid.UUID {
	return derive(personNamespace, nil, role+"/"+strings.ToLower(name))
}

// ProjectionID derives the identifier of the stream of a projection.
func ProjectionID(name string) uuid.UUID { return derive(projectionNamespace, nil, name) }

// NovelsSource is the source (CloudEvents) of an integration's novel upserts. Source and idempotency key are unique
// together.
func NovelsSource(integrationID uuid.UUID) string { return JoinSource(integrationID, "novels") }

// PostsSource is the source of an integration's comments.
func PostsSource(integrationID uuid.UUID) string { return JoinSource(integrationID, "posts") }

// PostThreadSource is the source of a ThreadOpened that a comment caused.
func PostThreadSource(integrationID uuid.UUID) string {
	return JoinSource(integrationID, "posts/thread")
}

// PostNovelSource is the source of a NovelCreated that a comment caused.
func PostNovelSource(integrationID uuid.UUID) string { return JoinSource(integrationID, "posts/novel") }

// PostEditsSource is the source of edits of an integration's comments.
func PostEditsSource(integrationID uuid.UUID) string { return JoinSource(integrationID, "posts/edits") }

// PostWithdrawalsSource is that of withdrawals.
func PostWithdrawalsSource(integrationID uuid.UUID) string {
	return JoinSource(integrationID, "posts/withdrawals")
}

// PostReportsSource is that of reports.
func PostReportsSource(integrationID uuid.UUID) string {
	return JoinSource(integrationID, "posts/reports")
}

// sourcePrefix begins the sources of integrations.
const sourcePrefix = "integrations/"

// JoinSource returns a source of an integration: "integrations/<id>/<path>".
func JoinSource(integrationID uuid.UUID, path string) string {
	return sourcePrefix + integrationID.String() + "/" + path
}

// SplitSource is the reverse of JoinSource. Any other source, such as one of staff, has no integration: path is then
// the whole source.
func SplitSource(source string) (integration uuid.NullUUID, path string) {
	const idSize = 36
	rest, ok := strings.CutPrefix(source, sourcePrefix)
	if !ok || len(rest) < idSize+2 || rest[idSize] != '/' {
		return uuid.NullUUID{}, source
	}
	id, err := uuid.Parse(rest[:idSize])
	if err != nil || strings.ToLower(rest[:idSize]) != rest[:idSize] {
		return uuid.NullUUID{}, source
	}
	return uuid.NullUUID{UUID: id, Valid: true}, rest[idSize+1:]
}
