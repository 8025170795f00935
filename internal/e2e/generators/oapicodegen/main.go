// Command oapicodegen sends commands with the client that oapi-codegen generates. Usage: oapicodegen URL KEY TITLE.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"generators/oapicodegen/api"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, key, title string) error {
	c, err := api.NewClientWithResponses(url, api.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+key)
			return nil
		}))
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *api.ClientWithResponses, string) error{
		commands, mistake, deliveries, tile,
	} {
		if err := step(ctx, c, title); err != nil {
			return err
		}
	}
	return nil
}

// commands creates a novel and sends a comment twice.
func commands(ctx context.Context, c *api.ClientWithResponses, title string) error {
	author, genres := "Ida Verne", []string{"Fantasy"}
	novel, err := c.UpsertNovelWithResponse(ctx, &api.UpsertNovelParams{IdempotencyKey: "novel-1"},
		api.NovelUpsert{Novel: title, Author: &author, Genres: &genres})
	if err != nil {
		return err
	}
	if novel.JSON201 == nil || !bool(novel.JSON201.Created) || novel.JSON201.Slug == "" {
		return fmt.Errorf("upsert: %s %s", novel.Status(), novel.Body)
	}
	chapter := 12.5
	comment := api.PostImport{
		Uuid: "member-1", Username: "Marlow", Novel: title, Content: "A comment.", ChapterNumber: &chapter,
	}
	params := &api.ImportPostParams{IdempotencyKey: "evt/1"}
	first, err := c.ImportPostWithResponse(ctx, params, comment)
	if err != nil {
		return err
	}
	again, err := c.ImportPostWithResponse(ctx, params, comment)
	if err != nil {
		return err
	}
	if first.JSON201 == nil || again.JSON200 == nil || first.JSON201.PostId != again.JSON200.PostId ||
		first.JSON201.ParentPostId != nil || again.HTTPResponse.Header.Get("Idempotent-Replayed") != "true" {
		return fmt.Errorf("comments: %s %s, %s %s", first.Status(), first.Body, again.Status(), again.Body)
	}
	return nil
}

// mistake sends a comment that the service refuses.
func mistake(ctx context.Context, c *api.ClientWithResponses, title string) error {
	bad, err := c.ImportPostWithResponse(ctx, &api.ImportPostParams{IdempotencyKey: "evt/2"},
		api.PostImport{Uuid: "member-1", Username: "Marlow", Novel: title})
	if err != nil {
		return err
	}
	if p := bad.ApplicationproblemJSON400; p == nil || p.Code != "invalid_request" || p.Retryable ||
		p.Errors == nil || (*p.Errors)[0].Field != "content" {
		return fmt.Errorf("mistake: %s %s", bad.Status(), bad.Body)
	}
	return nil
}

// deliveries queries the recorded deliveries.
func deliveries(ctx context.Context, c *api.ClientWithResponses, _ string) error {
	shown, err := c.ShowDeliveryWithResponse(ctx, "evt/1", &api.ShowDeliveryParams{Operation: api.OperationPosts})
	if err != nil {
		return err
	}
	if shown.JSON200 == nil {
		return fmt.Errorf("delivery: %s %s", shown.Status(), shown.Body)
	}
	delivery, err := shown.JSON200.ValueByDiscriminator()
	if err != nil {
		return err
	}
	if post, ok := delivery.(api.PostDelivery); !ok || post.IdempotencyKey != "evt/1" || post.PostState != api.PostDeliveryPostStateVisible {
		return fmt.Errorf("delivery: %s", shown.Body)
	}
	found, err := c.ReconcileDeliveriesWithResponse(ctx, nil,
		api.Reconciliation{Operation: api.OperationPosts, IdempotencyKeys: []string{"evt/1", "evt/2"}})
	if err != nil {
		return err
	}
	if found.JSON200 == nil || found.JSON200.Present != 1 || len(found.JSON200.Missing) != 1 {
		return fmt.Errorf("reconciliation: %s %s", found.Status(), found.Body)
	}
	me, err := c.ShowIntegrationWithResponse(ctx, nil)
	if err != nil {
		return err
	}
	if me.JSON200 == nil || me.JSON200.Limits.Posts.PerMinute < 1 || me.JSON200.Limits.NovelUpdates != nil {
		return fmt.Errorf("integration: %s %s", me.Status(), me.Body)
	}
	return nil
}

// tile reads a tile of the ledger, whose path has an escaped slash.
func tile(ctx context.Context, c *api.ClientWithResponses, _ string) error {
	found, err := c.LedgerTileWithResponse(ctx, "entries/000.p/1")
	if err != nil {
		return err
	}
	if path := found.HTTPResponse.Request.URL.EscapedPath(); !strings.Contains(path, "%2F") ||
		found.StatusCode() != http.StatusOK {
		return fmt.Errorf("tile %s: %s %s", path, found.Status(), found.Body)
	}
	return nil
}
