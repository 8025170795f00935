package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"novelgate/client"
)

func Example() {
	c, err := client.New(baseURL, apiKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()

	novel, err := c.Novels.Upsert(ctx, "clockmaker-1", client.Novel{
		Title: "The Clockmaker's Apprentice", Author: "Ida Verne", Genres: []string{"Fantasy", "Mystery"},
	})
	if refused, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refused.Code, refused.Fields, refused.RequestID)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(novel.Created, novel.URL)
	// Output: true https://novels.example.org/novels/the-clockmakers-apprentice
}

func ExamplePosts_Create() {
	c, err := client.New(baseURL, apiKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()

	post, err := c.Posts.Create(ctx, "evt-100", client.Post{
		UUID: "member-4711", Username: "Marlow", Novel: "The Clockmaker's Apprentice", Content: "I did not see that coming.",
		ChapterNumber: "12.5", Timestamp: time.Date(2025, time.March, 1, 17, 30, 0, 0, time.UTC),
	})
	if refused, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refused.Code, refused.Fields, refused.RequestID)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(post.Created, post.PostID)
	// Output: true 3f1c1f0e-3d55-8a86-9d2a-1f5f0f7c1b01
}

func ExamplePosts_Edit() {
	c, err := client.New(baseURL, apiKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	changed, err := c.Posts.Edit(ctx, "evt-100-v2", "evt-100", client.Edit{
		Content: "I did not see that coming!", Timestamp: time.Date(2025, time.March, 2, 9, 0, 0, 0, time.UTC),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(changed.PostID, changed.Applied)
	// Output: 3f1c1f0e-3d55-8a86-9d2a-1f5f0f7c1b01 true
}

func ExampleDeliveries_Missing() {
	c, err := client.New(baseURL, apiKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	missing, err := c.Deliveries.Missing(ctx, client.OperationPosts, []string{"evt-100", "evt-101", "evt-102"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(missing)
	// Output: [evt-101]
}

func ExampleDeliveries_Refusals() {
	c, err := client.New(baseURL, apiKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := c.Deliveries.Refusals(context.Background(), client.RefusalFilter{IdempotencyKey: "evt-102"}, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, refused := range page.Refusals {
		fmt.Println(refused.Code, *refused.Field, refused.Detail)
	}
	// Output: invalid_request content is required
}

func ExampleClient_Bulk() {
	c, err := client.New(baseURL, apiKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	lines := []client.Line{
		{Operation: client.OperationNovels, Key: "novel-7", Body: client.Novel{Title: "The Clockmaker's Apprentice"}},
		{Operation: client.OperationPosts, Key: "evt-100", Body: client.Post{
			UUID: "member-4711", Novel: "The Clockmaker's Apprentice", Content: "I did not see that coming.",
		}},
	}
	for outcome, err := range c.Bulk(context.Background(), slices.Values(lines)) {
		switch {
		case err != nil: // call Bulk again with all lines
			fmt.Println(err)
		case outcome.Err != nil:
			fmt.Println(lines[outcome.Index].Key, outcome.Err.Code, outcome.Err.Detail)
		case outcome.Mismatch:
			fmt.Println(lines[outcome.Index].Key, "is the key of another command")
		default:
			fmt.Println(lines[outcome.Index].Key, outcome.Created, outcome.URL)
		}
	}
	// Output:
	// novel-7 true https://novels.example.org/novels/the-clockmakers-apprentice
	// evt-100 invalid_request username: is required.
}
