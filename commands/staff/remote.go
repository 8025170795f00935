package staff

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/principal"
	"novelgate/client"
	"novelgate/commands/refusals"
	"novelgate/commands/webhooks"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/title"
	"novelgate/internal/web"
)

// Remote executes commands of staff through API, the routes of a running service. Its methods are those of Staff, with
// the same results, and with errors of the same text.
//
// Client repeats requests: a POST with the same Idempotency-Key, the others because they may be repeated.
type Remote struct {
	Client   *client.Client // with the key of a staff user
	Patience time.Duration  // for one request with its repetitions; default 1 min
}

// send sends a request and decodes its answer into answer, unless that is nil. missing replaces the error for an object
// that does not exist.
func (r *Remote) send(ctx context.Context, method, path string, body, answer any, missing error) error {
	patience := cmp.Or(r.Patience, time.Minute)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key := ""
	if method == http.MethodPost {
		key = uuid.NewString()
	}
	var text jsontext.Value
	into := any(&text)
	if answer == nil {
		into = nil
	}
	err := r.Client.Do(ctx, method, path, key, body, into)
	late := errors.Is(err, context.DeadlineExceeded)
	if late {
		err = fmt.Errorf("the service did not answer within %v: %w", patience, err)
	}
	switch {
	case (late || errors.Is(err, context.Canceled)) && method != http.MethodGet:
		database.MarkUnknown(ctx)
		return err
	case err != nil:
		return asDirect(err, missing)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(text, answer, json.WithUnmarshalers(asSent)); err != nil {
		return fmt.Errorf("decode the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// asSent keeps the data of events as the text that was sent, with its order of members.
var asSent = json.UnmarshalFromFunc(func(from *jsontext.Decoder, data *any) error {
	text, err := from.ReadValue()
	*data = jsontext.Value(bytes.Clone(text))
	return err //nolint:wrapcheck // the decoder adds where
})

// asDirect returns a refusal with the text that it has on the database, which Problem has made a problem of.
func asDirect(err, missing error) error {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	switch code := problem.Code(refused.Code); code {
	case problem.CodeNotFound:
		return cmp.Or(missing, err)
	case problem.CodeInvalidRequest, problem.CodeConflict, problem.CodeInvalidTransition:
	default:
		return err
	}
	var limits []string
	for _, field := range refused.Fields {
		if operation, ok := strings.CutSuffix(field.Field, "PerMinute"); ok {
			limits = append(limits, operation)
		}
	}
	switch {
	case len(limits) > 0:
		return &principal.LimitError{Operations: limits}
	case len(refused.Fields) > 0:
		return errors.New(refused.Fields[0].Message)
	default:
		return errors.New(problem.Unsentence(refused.Detail))
	}
}

// Event returns the event with a log index as a CloudEvent.
func (r *Remote) Event(ctx context.Context, logIndex int64, missing error) (jsontext.Value, error) {
	return fetch[jsontext.Value](ctx, r, http.MethodGet, fmt.Sprintf("/api/events/%d", logIndex), nil, missing)
}

// fetch sends a request and returns its answer.
func fetch[T any](ctx context.Context, r *Remote, method, path string, body any, missing error) (answer T, err error) {
	err = r.send(ctx, method, path, body, &answer, missing)
	return answer, err
}

// Names are the names of what the items of a page name by id, if the list has them.
type Names map[uuid.UUID]string

// EachItem reads the pages of a list, and calls do for up to limit items. The query may have the cursor where to begin.
func EachItem[T any](
	ctx context.Context, r *Remote, path string, query url.Values, limit int, missing error,
	do func(item T, names Names) error,
) error {
	const page = 50 // an item may have 30 KB
	for limit > 0 {
		query.Set("limit", strconv.Itoa(min(page, limit)))
		read, err := fetch[struct {
			web.Page[T]
			Names Names `json:"names"`
		}](ctx, r, http.MethodGet, path+"?"+query.Encode(), nil, missing)
		if err != nil {
			return err
		}
		for _, item := range read.Items {
			if err := do(item, read.Names); err != nil {
				return err
			}
		}
		if read.NextCursor == nil {
			return nil
		}
		limit -= len(read.Items)
		query.Set("cursor", *read.NextCursor)
	}
	return nil
}

// list reads up to limit items of a list, 0 for all. cursor is where to begin; "": with the first item.
func list[T any](
	ctx context.Context, r *Remote, path string, query url.Values, cursor string, limit int, missing error,
) ([]T, error) {
	if limit == 0 {
		limit = math.MaxInt
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	items := []T{}
	err := EachItem(ctx, r, path, query, limit, missing, func(item T, _ Names) error {
		items = append(items, item)
		return nil
	})
	return items, err
}

// after returns the cursor of a list after an id; "" for uuid.Nil.
func after(list string, id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return web.EncodeCursor(list, id.String())
}

var pathVariable = regexp.MustCompile(`{[^}]*}`)

// address returns the path of a route with the values of its variables.
func address(path string, values ...string) string {
	return pathVariable.ReplaceAllStringFunc(path, func(string) string {
		value := values[0]
		values = values[1:]
		return url.PathEscape(value)
	})
}

// withReason adds a reason to the path of a DELETE.
func withReason(path, reason string) string {
	return path + "?" + url.Values{"reason": {reason}}.Encode()
}

// Integration finds an integration by its id or its name.
func (r *Remote) Integration(ctx context.Context, idOrName string) (Integration, error) {
	missing := fmt.Errorf("%w: %q", principal.ErrNotFound, idOrName)
	if id, err := uuid.Parse(idOrName); err == nil {
		found, err := fetch[Integration](ctx, r, http.MethodGet, address(integrationPath, id.String()), nil, missing)
		found.History = nil
		return found, err
	}
	all, err := r.ListIntegrations(ctx, uuid.Nil, 0)
	if err != nil {
		return Integration{}, err
	}
	for _, i := range all {
		if title.Fold(i.Name) == title.Fold(idOrName) {
			return i, nil
		}
	}
	return Integration{}, missing
}

// IntegrationWithHistory finds an integration as Integration does, with its latest events.
func (r *Remote) IntegrationWithHistory(ctx context.Context, idOrName string) (Integration, error) {
	id, err := uuid.Parse(idOrName)
	if err != nil {
		found, err := r.Integration(ctx, idOrName)
		if err != nil {
			return Integration{}, err
		}
		id = found.ID
	}
	return fetch[Integration](ctx, r, http.MethodGet, address(integrationPath, id.String()), nil,
		fmt.Errorf("%w: %q", principal.ErrNotFound, idOrName))
}

// ListIntegrations lists integrations, oldest first.
func (r *Remote) ListIntegrations(ctx context.Context, from uuid.UUID, limit int) ([]Integration, error) {
	return list[Integration](ctx, r, integrationsPath, url.Values{}, after(integrationList, from), limit, nil)
}

// ListRefusals lists refused commands of an integration, newest first.
func (r *Remote) ListRefusals(ctx context.Context, f refusals.Filter) ([]refusals.Refusal, error) {
	query := url.Values{}
	for name, value := range map[string]string{"code": f.Code, "operation": f.Operation, "key": f.Key} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return list[refusals.Refusal](ctx, r, address(integrationPath, f.IntegrationID.String())+"/refusals", query,
		after(refusals.ListName(f.IntegrationID), f.Before), f.Limit, principal.ErrNotFound)
}

// settingsOf returns the body of a request that changes settings. capabilities are those before the change.
func settingsOf(c principal.Change, capabilities []string) settings {
	s := settings{
		Name: c.Name, Enabled: c.Enabled, Review: c.Review,
		PostsPerMinute: c.PostsPerMinute, NovelsPerMinute: c.NovelsPerMinute, LinesPerMinute: c.LinesPerMinute,
	}
	if c.Capabilities == nil {
		return s
	}
	s.Capabilities = &[]string{}
	for _, capability := range principal.Capabilities() {
		on, given := c.Capabilities[capability]
		if on || !given && slices.Contains(capabilities, string(capability)) {
			*s.Capabilities = append(*s.Capabilities, string(capability))
		}
	}
	return s
}

// RegisterIntegration creates an integration, and issues its first key, which never expires.
func (r *Remote) RegisterIntegration(
	ctx context.Context, name string, change principal.Change,
) (Integration, Key, auth.Secret, error) {
	change.Name = &name
	made, err := fetch[createdIntegration](ctx, r, http.MethodPost, integrationsPath, settingsOf(change, nil), nil)
	if err != nil {
		return Integration{}, Key{}, auth.Secret{}, err
	}
	key, secret, err := issuedKey{KeyID: made.KeyID, IntegrationID: made.ID, APIKey: made.APIKey}.opened()
	return made.Integration, key, secret, err
}

// ChangeIntegration changes settings of an integration.
func (r *Remote) ChangeIntegration(ctx context.Context, id uuid.UUID, change principal.Change) (Integration, error) {
	var capabilities []string
	if change.Capabilities != nil { // a request names all
		now, err := r.Integration(ctx, id.String())
		if err != nil {
			return Integration{}, err
		}
		capabilities = now.Capabilities
	}
	return fetch[Integration](ctx, r, http.MethodPatch, address(integrationPath, id.String()),
		settingsOf(change, capabilities), principal.ErrNotFound)
}

// ListKeys lists keys of one integration or, with uuid.Nil, of all, oldest first.
func (r *Remote) ListKeys(ctx context.Context, integrationID, from uuid.UUID, limit int) ([]Key, error) {
	path := keysPath
	if integrationID != uuid.Nil {
		path = address(integrationPath, integrationID.String()) + "/keys"
	}
	return list[Key](ctx, r, path, url.Values{}, after(keyList(integrationID), from), limit, principal.ErrNotFound)
}

// IssueKey issues another key to an integration. A key with a lifetime of 0 never expires.
func (r *Remote) IssueKey(
	ctx context.Context, integrationID uuid.UUID, lifetime time.Duration,
) (Key, auth.Secret, error) {
	return r.newKey(ctx, address(integrationPath, integrationID.String())+"/keys",
		keyRequest{ExpiresInSeconds: wholeSeconds(lifetime)}, principal.ErrNotFound)
}

// RotateKey replaces a key with a new one. The old key expires after the overlap.
func (r *Remote) RotateKey(ctx context.Context, keyID uuid.UUID, overlap time.Duration) (Key, auth.Secret, error) {
	if overlap < 0 {
		return Key{}, auth.Secret{}, principal.ErrOverlap
	}
	return r.newKey(ctx, address(keyPath, keyID.String())+"/rotate", rotation{OverlapSeconds: wholeSeconds(overlap)},
		principal.ErrKeyNotFound)
}

func (r *Remote) newKey(ctx context.Context, path string, body any, missing error) (Key, auth.Secret, error) {
	issued, err := fetch[issuedKey](ctx, r, http.MethodPost, path, body, missing)
	if err != nil {
		return Key{}, auth.Secret{}, err
	}
	return issued.opened()
}

// wholeSeconds returns a time in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// opened returns the key with its secret. It fails if the secret was in an earlier answer, which did not arrive.
func (k issuedKey) opened() (Key, auth.Secret, error) {
	if k.APIKey == nil {
		return Key{}, auth.Secret{}, fmt.Errorf("the answer with the API key did not arrive, and the key is lost: revoke it "+
			"with `novelgate key revoke %v`, and issue another one", k.KeyID)
	}
	secret, err := auth.ParseKey(*k.APIKey)
	if err != nil {
		return Key{}, auth.Secret{}, fmt.Errorf("decode the key %v: %w", k.KeyID, err)
	}
	return Key{
		ID: k.KeyID, IntegrationID: k.IntegrationID, Prefix: secret.Prefix(), ExpiresAt: k.ExpiresAt,
	}, secret, nil
}

// RevokeKey revokes a key.
func (r *Remote) RevokeKey(ctx context.Context, keyID uuid.UUID, reason string) (Key, error) {
	key, err := r.key(ctx, keyID)
	if err == nil && key.RevokedAt != nil {
		err = principal.ErrKeyRevoked
	}
	if err != nil {
		return Key{}, err
	}
	path := withReason(address(keyPath, keyID.String()), reason)
	if err := r.send(ctx, http.MethodDelete, path, nil, nil, principal.ErrKeyNotFound); err != nil {
		return Key{}, err
	}
	return r.key(ctx, keyID)
}

func (r *Remote) key(ctx context.Context, keyID uuid.UUID) (Key, error) {
	all, err := r.ListKeys(ctx, uuid.Nil, uuid.Nil, 0)
	if err != nil {
		return Key{}, err
	}
	for _, key := range all {
		if key.ID == keyID {
			return key, nil
		}
	}
	return Key{}, principal.ErrKeyNotFound
}

// Novel finds a novel by its title.
func (r *Remote) Novel(ctx context.Context, spelling string) (Novel, error) {
	found, err := list[Novel](ctx, r, novelsPath, url.Values{"title": {spelling}}, "", 1, nil)
	if err == nil && len(found) == 0 {
		err = &UnknownTitleError{title.Clean(spelling)}
	}
	if err != nil {
		return Novel{}, err
	}
	return found[0], nil
}

// NovelWithHistory finds a novel by its id, with its latest events.
func (r *Remote) NovelWithHistory(ctx context.Context, id uuid.UUID) (Novel, error) {
	return fetch[Novel](ctx, r, http.MethodGet, address(novelPath, id.String()), nil,
		fmt.Errorf("%w: %s", ErrNoSuchNovel, id))
}

// ListNovels lists novels and barred titles, sorted by folded title.
func (r *Remote) ListNovels(ctx context.Context, f NovelFilter) ([]Novel, error) {
	query := url.Values{}
	for name, value := range map[string]string{"state": string(f.State), "owner": f.Owner, "text": f.Text} {
		if value != "" {
			query.Set(name, value)
		}
	}
	cursor := ""
	if f.After != "" {
		cursor = web.EncodeCursor(novelList, f.After)
	}
	return list[Novel](ctx, r, novelsPath, query, cursor, f.Limit, nil)
}

// PublishNovel makes a title canonical and sets fields of the novel.
func (r *Remote) PublishNovel(ctx context.Context, spelling string, fields novel.Fields, reason string) (Novel, error) {
	spelling, err := cleanTitle(spelling)
	if err != nil {
		return Novel{}, err
	}
	body := bodyOf(fields, reason)
	body["novel"] = spelling
	return fetch[Novel](ctx, r, http.MethodPost, novelsPath, body, nil)
}

// EditNovel changes fields of a canonical novel.
func (r *Remote) EditNovel(ctx context.Context, id uuid.UUID, fields novel.Fields, reason string) (Novel, error) {
	return fetch[Novel](ctx, r, http.MethodPatch, address(novelPath, id.String()), bodyOf(fields, reason), ErrNoSuchNovel)
}

// bodyOf returns the body of a request with fields of a novel. null is as good as an omitted field.
func bodyOf(f novel.Fields, reason string) map[string]any {
	return map[string]any{
		"author": f.Author, "synopsis": f.Synopsis, "coverUrl": f.CoverURL, "genres": f.Genres, "language": f.Language,
		"readingStatus": f.ReadingStatus, "reason": reason,
	}
}

// ApproveNovel approves a pending or rejected novel. A barred title becomes free.
func (r *Remote) ApproveNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	spelling, err := cleanTitle(spelling)
	if err != nil {
		return Novel{}, err
	}
	found, err := r.Novel(ctx, spelling)
	if err != nil {
		return Novel{}, err
	}
	return fetch[Novel](ctx, r, http.MethodPost, address(novelPath, found.NovelID.String())+"/approve",
		reasonBody{reason}, ErrNoSuchNovel)
}

// RejectNovel rejects a pending or approved novel, or bars a title without a novel.
func (r *Remote) RejectNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	return fetch[Novel](ctx, r, http.MethodPost, novelsPath+"/reject", rejection{spelling, reason}, nil)
}

// Post finds a post.
func (r *Remote) Post(ctx context.Context, id uuid.UUID) (Post, error) {
	return fetch[Post](ctx, r, http.MethodGet, address(postPath, id.String()), nil, post.ErrNotFound)
}

// ListPosts lists posts.
func (r *Remote) ListPosts(ctx context.Context, f PostFilter) ([]ListedPost, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"state": f.State, "text": f.Text, "chapter": f.Chapter, "sort": f.Sort,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, id := range map[string]uuid.UUID{
		"novel": f.NovelID, "author": f.AuthorID, "integration": f.IntegrationID,
	} {
		if id != uuid.Nil {
			query.Set(name, id.String())
		}
	}
	for name, at := range map[string]*time.Time{"from": f.From, "to": f.To} {
		if at != nil {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return list[ListedPost](ctx, r, postsPath, query, f.Cursor, f.Limit, nil)
}

// DecidePosts executes Hide, Restore or Dismiss for up to MaxDecided posts.
func (r *Remote) DecidePosts(ctx context.Context, decision string, ids []uuid.UUID, reason string) (Decisions, error) {
	return fetch[Decisions](ctx, r, http.MethodPost, postsPath+"/decisions", decisionBody{decision, ids, reason}, nil)
}

// HidePost hides a post from readers.
func (r *Remote) HidePost(ctx context.Context, id uuid.UUID, reason string) (Post, error) {
	return fetch[Post](ctx, r, http.MethodPost, address(postPath, id.String())+"/hide", reasonBody{reason},
		post.ErrNotFound)
}

// RestorePost makes a post visible again.
func (r *Remote) RestorePost(ctx context.Context, id uuid.UUID, reason string) (Post, error) {
	return fetch[Post](ctx, r, http.MethodPost, address(postPath, id.String())+"/restore", reasonBody{reason},
		post.ErrNotFound)
}

// DismissReports finds the reports of a post unfounded.
func (r *Remote) DismissReports(ctx context.Context, id uuid.UUID, reason string) (Post, error) {
	return fetch[Post](ctx, r, http.MethodPost, address(postPath, id.String())+"/dismiss-reports", reasonBody{reason},
		post.ErrNotFound)
}

func (n AuthorName) address() string {
	return address(authorPath, n.IntegrationID.String(), n.ExternalUUID)
}

// AuthorWithHistory finds an author, with the decisions about them.
func (r *Remote) AuthorWithHistory(ctx context.Context, name AuthorName) (Author, error) {
	return fetch[Author](ctx, r, http.MethodGet, name.address(), nil, ErrNoSuchAuthor)
}

// ListAuthors lists the authors of an integration.
func (r *Remote) ListAuthors(ctx context.Context, f AuthorFilter) ([]Author, error) {
	query := url.Values{}
	for name, value := range map[string]*bool{"linked": f.Linked, "blocked": f.Blocked} {
		if value != nil {
			query.Set(name, strconv.FormatBool(*value))
		}
	}
	cursor := ""
	if f.After != "" {
		cursor = web.EncodeCursor(authorList(f.IntegrationID), f.After)
	}
	return list[Author](ctx, r, address(integrationPath, f.IntegrationID.String())+"/authors", query, cursor, f.Limit,
		principal.ErrNotFound)
}

// LinkAuthor attributes the comments of an author to a member of the host platform.
func (r *Remote) LinkAuthor(ctx context.Context, name AuthorName, memberID, reason string) (Author, error) {
	return fetch[Author](ctx, r, http.MethodPut, name.address()+"/member", link{memberID, reason}, principal.ErrNotFound)
}

// UnlinkAuthor attributes the comments of an author to the partner platform again.
func (r *Remote) UnlinkAuthor(ctx context.Context, name AuthorName, reason string) (Author, error) {
	path := withReason(name.address()+"/member", reason)
	if err := r.send(ctx, http.MethodDelete, path, nil, nil, principal.ErrNotFound); err != nil {
		return Author{}, err
	}
	found, err := r.AuthorWithHistory(ctx, name)
	found.History = nil
	return found, err
}

// BlockAuthor refuses further comments of an author.
func (r *Remote) BlockAuthor(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return r.decideAuthor(ctx, name, "/block", reason)
}

// UnblockAuthor lets an author comment again.
func (r *Remote) UnblockAuthor(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return r.decideAuthor(ctx, name, "/unblock", reason)
}

// HideAuthorPosts hides all posts of an author received up to now.
func (r *Remote) HideAuthorPosts(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return r.decideAuthor(ctx, name, "/hide-posts", reason)
}

// RestoreAuthorPosts undoes HideAuthorPosts.
func (r *Remote) RestoreAuthorPosts(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return r.decideAuthor(ctx, name, "/restore-posts", reason)
}

func (r *Remote) decideAuthor(ctx context.Context, name AuthorName, verb, reason string) (Author, error) {
	return fetch[Author](ctx, r, http.MethodPost, name.address()+verb, reasonBody{reason}, principal.ErrNotFound)
}

// EraseAuthor permanently erases the identity and the comments of an author, up to now.
func (r *Remote) EraseAuthor(ctx context.Context, name AuthorName, reason string) (Erasure, error) {
	return fetch[Erasure](ctx, r, http.MethodDelete, withReason(name.address(), reason), nil, ErrNoSuchAuthor)
}

// ListWebhooks lists the webhooks of an integration, or with uuid.Nil those of all integrations, oldest first.
func (r *Remote) ListWebhooks(ctx context.Context, integration uuid.UUID) ([]webhooks.StaffWebhook, error) {
	query := url.Values{}
	if integration != uuid.Nil {
		query.Set("integration", integration.String())
	}
	found, err := fetch[webhookList](ctx, r, http.MethodGet, webhooksPath+"?"+query.Encode(), nil, nil)
	return found.Items, err
}

// SwitchWebhook disables or enables a webhook. Its partner reads the reason.
func (r *Remote) SwitchWebhook(
	ctx context.Context, id uuid.UUID, on bool, reason string,
) (webhooks.StaffWebhook, error) {
	state := "/disabled"
	if on {
		state = "/enabled"
	}
	return fetch[webhooks.StaffWebhook](ctx, r, http.MethodPut, address(webhookPath, id.String())+state,
		reasonBody{reason}, webhooks.ErrNotFound)
}
