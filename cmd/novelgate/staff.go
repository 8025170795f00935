package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/internal/auth"
)

// staffService executes the commands of staff: a *staff.Staff on the database.
type staffService interface {
	Integration(ctx context.Context, idOrName string) (staff.Integration, error)
	ListIntegrations(ctx context.Context, after uuid.UUID, limit int) ([]staff.Integration, error)
	RegisterIntegration(
		ctx context.Context, name string, change principal.Change,
	) (staff.Integration, staff.Key, auth.Secret, error)
	ChangeIntegration(ctx context.Context, id uuid.UUID, change principal.Change) (staff.Integration, error)

	ListKeys(ctx context.Context, integrationID, after uuid.UUID, limit int) ([]staff.Key, error)
	IssueKey(ctx context.Context, integrationID uuid.UUID, lifetime time.Duration) (staff.Key, auth.Secret, error)
	RotateKey(ctx context.Context, keyID uuid.UUID, overlap time.Duration) (staff.Key, auth.Secret, error)
	RevokeKey(ctx context.Context, keyID uuid.UUID, reason string) (staff.Key, error)

	Novel(ctx context.Context, title string) (staff.Novel, error)
	ListNovels(ctx context.Context, f staff.NovelFilter) ([]staff.Novel, error)
	PublishNovel(ctx context.Context, title string, fields novel.Fields, reason string) (staff.Novel, error)
	EditNovel(ctx context.Context, id uuid.UUID, fields novel.Fields, reason string) (staff.Novel, error)
	ApproveNovel(ctx context.Context, title, reason string) (staff.Novel, error)
	RejectNovel(ctx context.Context, title, reason string) (staff.Novel, error)

	Post(ctx context.Context, id uuid.UUID) (staff.Post, error)
	HidePost(ctx context.Context, id uuid.UUID, reason string) (staff.Post, error)
	RestorePost(ctx context.Context, id uuid.UUID, reason string) (staff.Post, error)

	AuthorWithHistory(ctx context.Context, name staff.AuthorName) (staff.Author, error)
	ListAuthors(ctx context.Context, f staff.AuthorFilter) ([]staff.Author, error)
	LinkAuthor(ctx context.Context, name staff.AuthorName, memberID, reason string) (staff.Author, error)
	UnlinkAuthor(ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error)
	BlockAuthor(ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error)
	UnblockAuthor(ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error)
	HideAuthorPosts(ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error)
	RestoreAuthorPosts(ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error)
	EraseAuthor(ctx context.Context, name staff.AuthorName, reason string) (staff.Erasure, error)

	ListWebhooks(ctx context.Context, integration uuid.UUID) ([]webhooks.StaffWebhook, error)
	SwitchWebhook(ctx context.Context, id uuid.UUID, on bool, reason string) (webhooks.StaffWebhook, error)
}

// answer executes a command of staff, and shows its result.
func (e *environment) answer(ctx context.Context, command func(s staffService) (result, error)) error {
	s, err := e.staffOnDatabase(ctx)
	if err != nil {
		return err
	}
	return e.show(command(s))
}

// staffOnDatabase opens the database for the commands of staff.
func (e *environment) staffOnDatabase(ctx context.Context) (*staff.Staff, error) {
	pool, err := e.pool(ctx)
	if err != nil {
		return nil, err
	}
	return e.newStaff(pool), nil
}
