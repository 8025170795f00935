package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/post"
	"novelgate/aggregates/principal"
	"novelgate/client"
	"novelgate/commands/staff"
	"novelgate/internal/problem"
	"novelgate/internal/title"
)

// namedKey is a key with what people call it.
type namedKey struct {
	id            uuid.UUID
	prefix, owner string
	usable        bool
}

// findKey returns the id of the key that is named by its prefix, or by its owner if that has one usable key.
func findKey(name string, keys []namedKey) (uuid.UUID, error) {
	begins := strings.TrimSuffix(name, "…")
	found := slices.DeleteFunc(slices.Clone(keys), func(k namedKey) bool { return k.prefix != begins })
	if len(found) == 0 {
		found = slices.DeleteFunc(slices.Clone(keys), func(k namedKey) bool {
			return !k.usable || title.Fold(k.owner) != title.Fold(name)
		})
	}
	switch len(found) {
	case 0:
		return uuid.Nil, fmt.Errorf("%w: no prefix, and no owner of a valid key, is %q", principal.ErrKeyNotFound, name)
	case 1:
		return found[0].id, nil
	}
	var which []string
	for _, k := range found {
		which = append(which, fmt.Sprintf("%s… (%s)", k.prefix, k.id))
	}
	return uuid.Nil, fmt.Errorf("%q is ambiguous: name one of %s", name, strings.Join(which, ", "))
}

// keyID returns the id of an integration's key that is named by id, prefix or integration.
func keyID(ctx context.Context, s staffService, name string, now time.Time) (uuid.UUID, error) {
	if id, err := uuid.Parse(name); err == nil {
		return id, nil
	}
	list, err := s.ListKeys(ctx, uuid.Nil, uuid.Nil, 0)
	if err != nil {
		return uuid.Nil, err
	}
	owners, err := integrationNames(ctx, s)
	if err != nil {
		return uuid.Nil, err
	}
	keys := make([]namedKey, len(list))
	for i, k := range list {
		keys[i] = namedKey{k.ID, k.Prefix, owners[k.IntegrationID], usable(k.RevokedAt, k.ExpiresAt, now)}
	}
	return findKey(name, keys)
}

// userKeyID is keyID for a key of staff.
func userKeyID(name string, list []staff.UserKey, now time.Time) (uuid.UUID, error) {
	keys := make([]namedKey, len(list))
	for i, k := range list {
		if k.ID.String() == name {
			return k.ID, nil
		}
		keys[i] = namedKey{k.ID, k.Prefix, k.Name, usable(k.RevokedAt, k.ExpiresAt, now)}
	}
	return findKey(name, keys)
}

func usable(revoked, expires *time.Time, now time.Time) bool {
	return revoked == nil && (expires == nil || now.Before(*expires))
}

// integrationNames returns the names of all integrations.
func integrationNames(ctx context.Context, s staffService) (map[uuid.UUID]string, error) {
	list, err := s.ListIntegrations(ctx, uuid.Nil, 0)
	names := make(map[uuid.UUID]string, len(list))
	for _, i := range list {
		names[i.ID] = i.Name
	}
	return names, err
}

// webhookID returns the id of the webhook that is named by id, URL, or an integration with one webhook.
func webhookID(ctx context.Context, s staffService, name string) (uuid.UUID, error) {
	if id, err := uuid.Parse(name); err == nil {
		return id, nil
	}
	list, err := s.ListWebhooks(ctx, uuid.Nil)
	if err != nil {
		return uuid.Nil, err
	}
	owners, err := integrationNames(ctx, s)
	if err != nil {
		return uuid.Nil, err
	}
	var found []uuid.UUID
	var urls []string
	for _, w := range list {
		if w.URL == name || title.Fold(owners[w.IntegrationID]) == title.Fold(name) {
			found, urls = append(found, w.ID), append(urls, fmt.Sprintf("%s (%s)", w.URL, w.ID))
		}
	}
	switch len(found) {
	case 0:
		return uuid.Nil, fmt.Errorf("no webhook has the URL %q, or is of an integration with that name; `novelgate webhook "+
			"list` shows all", name)
	case 1:
		return found[0], nil
	default:
		return uuid.Nil, fmt.Errorf("%q is ambiguous: name one of %s", name, strings.Join(urls, ", "))
	}
}

// postID is the id of a post, given as such or in the URL of the post.
type postID uuid.UUID

// UnmarshalText accepts an id and a URL.
func (p *postID) UnmarshalText(text []byte) error {
	id := string(text)
	if u, err := url.Parse(id); err == nil && u.Query().Has("post") {
		id = u.Query().Get("post")
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return fmt.Errorf("must be the id of a post, as `novelgate post list` shows it, or its URL, not %q",
			title.Clip(string(text), 50))
	}
	*p = postID(parsed)
	return nil
}

// advise adds to an error what to do next.
func (e *environment) advise(ctx context.Context, s staffService, err error) error {
	denied := false
	if refused, ok := errors.AsType[*client.Error](err); ok {
		denied = slices.Contains([]problem.Code{problem.CodeUnauthorized, problem.CodeForbidden}, problem.Code(refused.Code))
	}
	unknown, isTitle := errors.AsType[*staff.UnknownTitleError](err)
	switch {
	case isTitle:
		return fmt.Errorf("%w; %s", err, similarTitles(ctx, s, unknown.Title))
	case errors.Is(err, principal.ErrNotFound):
		return fmt.Errorf("%w; `novelgate integration list` shows the names", err)
	case errors.Is(err, principal.ErrKeyNotFound):
		return fmt.Errorf("%w; `novelgate %s list` shows the prefixes", err, e.noun)
	case errors.Is(err, staff.ErrNoSuchAuthor):
		return fmt.Errorf("%w: give the partner's identifier, not the name; `novelgate author list` shows both", err)
	case errors.Is(err, post.ErrNotFound):
		return fmt.Errorf("%w; `novelgate post list` shows the ids", err)
	case denied:
		return fmt.Errorf("%w; NOVELGATE_KEY or --key-file needs a valid staff key (ngs_…), which `novelgate staff create` "+
			"makes beside the database", err)
	}
	return err
}

// similarTitles names novels with a text in their title.
func similarTitles(ctx context.Context, s staffService, text string) string {
	const shown = 3
	list, err := s.ListNovels(ctx, staff.NovelFilter{Text: text, Limit: shown + 1})
	if err != nil || len(list) == 0 || text == "" {
		return "`novelgate novel list --text WORD` finds it by a part of its title"
	}
	var titles []string
	for _, n := range list[:min(shown, len(list))] {
		titles = append(titles, fmt.Sprintf("%q", n.Title))
	}
	if len(list) > shown {
		titles = append(titles, "…")
	}
	return "it is part of " + strings.Join(titles, ", ")
}
