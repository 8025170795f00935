// Command ogen sends commands with the client that ogen generates. Usage: ogen URL KEY TITLE.
package main

import (
	"context"
	"fmt"
	"os"

	"generators/ogen/api"
)

func main() {
	if err := run(context.Background(), os.Args[1], key(os.Args[2]), os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// key is an API key.
type key string

// ApiKey implements api.SecuritySource.
func (k key) ApiKey(context.Context, api.OperationName) (api.ApiKey, error) {
	return api.ApiKey{Token: string(k)}, nil
}

func run(ctx context.Context, url string, key key, title string) error {
	c, err := api.NewClient(url, key)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *api.Client, string) error{commands, mistake, deliveries} {
		if err := step(ctx, c, title); err != nil {
			return err
		}
	}
	return nil
}

// commands creates a novel and sends a comment twice.
func commands(ctx context.Context, c *api.Client, title string) error {
	novel, err := c.UpsertNovel(ctx, &api.NovelUpsert{
		Novel: api.NovelTitle(title), Author: api.NewOptNilNovelAuthor("Ida Verne"),
		Genres: api.NewOptNilNovelGenres(api.NovelGenres{"Fantasy"}),
	}, api.UpsertNovelParams{IdempotencyKey: "novel-1"})
	if err != nil {
		return err
	}
	if created, ok := novel.(*api.UpsertNovelCreatedHeaders); !ok || !created.Response.Created {
		return fmt.Errorf("upsert: %+v", novel)
	}
	comment := &api.PostImport{
		UUID: "member-1", Username: "Marlow", Novel: title, Content: "A comment.", ChapterNumber: api.NewOptNilFloat64(12.5),
	}
	params := api.ImportPostParams{IdempotencyKey: "evt/1"}
	first, err := c.ImportPost(ctx, comment, params)
	if err != nil {
		return err
	}
	again, err := c.ImportPost(ctx, comment, params)
	if err != nil {
		return err
	}
	created, ok := first.(*api.ImportPostCreatedHeaders)
	replayed, ok2 := again.(*api.ImportPostOKHeaders)
	if !ok || !ok2 || created.Response.PostId != replayed.Response.PostId || !created.Response.ParentPostId.Null {
		return fmt.Errorf("comments: %+v, %+v", first, again)
	}
	return nil
}

// mistake reuses a key for another title. The client would not send a body that the description forbids.
func mistake(ctx context.Context, c *api.Client, title string) error {
	bad, err := c.UpsertNovel(ctx, &api.NovelUpsert{Novel: api.NovelTitle(title + " II")},
		api.UpsertNovelParams{IdempotencyKey: "novel-1"})
	if err != nil {
		return err
	}
	if p, ok := bad.(*api.BadRequestHeaders); !ok || p.Response.Code != api.BadRequestCodeInvalidIdempotencyKey {
		return fmt.Errorf("mistake: %+v", bad)
	}
	return nil
}

// deliveries queries the recorded deliveries.
func deliveries(ctx context.Context, c *api.Client, _ string) error {
	shown, err := c.ShowDelivery(ctx, api.ShowDeliveryParams{IdempotencyKey: "evt/1", Operation: api.OperationPosts})
	if err != nil {
		return err
	}
	d, ok := shown.(*api.DeliveryHeaders)
	if !ok || !d.Response.IsPostDelivery() || d.Response.PostDelivery.PostState != api.PostDeliveryPostStateVisible {
		return fmt.Errorf("delivery: %+v", shown)
	}
	answer, err := c.ReconcileDeliveries(ctx, &api.Reconciliation{
		Operation: api.OperationPosts, IdempotencyKeys: []api.IdempotencyKey{"evt/1", "evt/2"},
	}, api.ReconcileDeliveriesParams{})
	if err != nil {
		return err
	}
	found, ok := answer.(*api.ReconciliationAnswerHeaders)
	if !ok || found.Response.Present != 1 || len(found.Response.Missing) != 1 {
		return fmt.Errorf("reconciliation: %+v", answer)
	}
	me, err := c.ShowIntegration(ctx, api.ShowIntegrationParams{})
	if err != nil {
		return err
	}
	if m, ok := me.(*api.IntegrationAnswerHeaders); !ok || !m.Response.Limits.NovelUpdates.Null {
		return fmt.Errorf("integration: %+v", me)
	}
	return nil
}
