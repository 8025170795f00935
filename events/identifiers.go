package events

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Namespaces of the identifiers that derive from natural keys (UUID version 5, RFC 9562), one per stream type.
// Two writers that race to create the same thing mint the same identifier and collide on it.
var (
	novelNamespace      = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e01")
	threadNamespace     = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e02")
	postNamespace       = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e03")
	authorNamespace     = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e04")
	personNamespace     = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e05")
	projectionNamespace = uuid.MustParse("0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e10")
)

// derive mints an identifier for a name in a scope.
func derive(namespace uuid.UUID, scope []byte, name string) uuid.UUID {
	return uuid.NewSHA1(namespace, slices.Concat(scope, []byte(name)))
}

// NovelID mints the identifier of a new novel with this folded title. Find an existing novel by its title instead:
// folding may change with the Unicode version.
func NovelID(foldedTitle string) uuid.UUID { return derive(novelNamespace, nil, foldedTitle) }

// ThreadID mints the identifier of a novel's discussion thread.
func ThreadID(novelID uuid.UUID) uuid.UUID { return derive(threadNamespace, novelID[:], "") }

// PostID mints the identifier of the comment with an integration's idempotency key.
func PostID(integrationID uuid.UUID, key string) uuid.UUID {
	return derive(postNamespace, integrationID[:], key)
}

// AuthorID mints the identifier of an author.
func AuthorID(integrationID uuid.UUID, externalUUID string) uuid.UUID {
	return derive(authorNamespace, integrationID[:], externalUUID)
}

// PersonID mints the identifier of a staff user from role and name, ignoring the case of the name.
func PersonID(role, name string) uuid.UUID {
	return derive(personNamespace, nil, role+"/"+strings.ToLower(name))
}

// ProjectionID mints the identifier of the stream of a projection.
func ProjectionID(name string) uuid.UUID { return derive(projectionNamespace, nil, name) }

// Sources of events (CloudEvents source). Together with the idempotency key they are unique.
const (
	novelsSuffix     = "/novels"
	postsSuffix      = "/posts"
	postThreadSuffix = "/posts/thread"
	postNovelSuffix  = "/posts/novel"
)

// NovelsSource is the source of an integration's novel upserts.
func NovelsSource(integrationID uuid.UUID) string { return source(integrationID, novelsSuffix) }

// PostsSource is the source of an integration's comments.
func PostsSource(integrationID uuid.UUID) string { return source(integrationID, postsSuffix) }

// PostThreadSource is the source of a ThreadOpened that a comment caused.
func PostThreadSource(integrationID uuid.UUID) string { return source(integrationID, postThreadSuffix) }

// PostNovelSource is the source of a NovelCreated that a comment caused.
func PostNovelSource(integrationID uuid.UUID) string { return source(integrationID, postNovelSuffix) }

func source(integrationID uuid.UUID, suffix string) string {
	return "integrations/" + integrationID.String() + suffix
}

// SourceIntegration returns the integration that an event's source names, and false for a source of staff.
func SourceIntegration(source string) (uuid.UUID, bool) {
	rest, ok := strings.CutPrefix(source, "integrations/")
	if !ok {
		return uuid.UUID{}, false
	}
	id, _, ok := strings.Cut(rest, "/")
	if !ok {
		return uuid.UUID{}, false
	}
	parsed, err := uuid.Parse(id)
	return parsed, err == nil
}
