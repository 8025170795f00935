package digests

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/bench/catalogue"
)

// Story is what happens to a service: a partner delivers, staff decide, the partner goes on.
type Story struct {
	Client        *catalogue.Client
	Integration   string // name or id of the partner whose key the client has
	IntegrationID uuid.UUID
	Novelgate     func(ctx context.Context, args ...string) error // the command line, on the database of the service
	Novels        []catalogue.Novel                               // at least 20
	Comments      int
	Print         func(text string) error
}

var errTooFew = errors.New("the catalogue has too few novels for the story")

// Tell lets all of it happen. Commands of staff come when nine tenths of the comments are in, so that some of what they
// decide is about what is still to come.
func (s *Story) Tell(ctx context.Context) error {
	sent, titles, err := s.Client.Novels(ctx, s.Novels)
	if err != nil {
		return err
	}
	if len(titles) < 20 {
		return fmt.Errorf("%w: %d", errTooFew, len(titles))
	}
	changed, _, err := s.Client.Novels(ctx, catalogue.Changes(s.Novels))
	if err != nil {
		return err
	}
	before := s.Comments / 10 * 9
	posted, err := s.Client.Comments(ctx, titles, 0, before)
	if err != nil {
		return err
	}
	if err := s.Print(sent.Text("novels") + changed.Text("changed novels") + posted.Text("comments")); err != nil {
		return err
	}
	commands := s.commands(titles)
	for _, command := range commands {
		if err := s.Novelgate(ctx, command...); err != nil {
			return fmt.Errorf("novelgate %s: %w", strings.Join(command, " "), err)
		}
	}
	posted, err = s.Client.Comments(ctx, titles, before, s.Comments)
	if err != nil {
		return err
	}
	return s.Print(fmt.Sprintf("%d commands of staff\n", len(commands)) + posted.Text("comments after that"))
}

// commands are what staff do, in this order.
func (s *Story) commands(titles []string) [][]string {
	const why = "--reason=told in the story"
	var list [][]string
	add := func(words ...string) { list = append(list, words) }
	author := func(verb string, reader int, more ...string) {
		add(append([]string{"author", verb, s.Integration, catalogue.Reader(reader), why}, more...)...)
	}
	post := func(verb string, comment int) {
		add("post", verb, events.PostID(s.IntegrationID, catalogue.CommentKey(comment)).String(), why)
	}
	novel := func(verb, title string, more ...string) { add(append([]string{"novel", verb, title, why}, more...)...) }

	for comment := range 20 {
		post("hide", comment)
	}
	for comment := range 5 {
		post("restore", comment)
	}
	for reader := range 4 {
		author("block", reader)
	}
	author("unblock", 1)
	for reader := 4; reader < 10; reader++ {
		author("link", reader, fmt.Sprintf("member-%d", reader))
	}
	author("unlink", 5)
	for reader := 9; reader < 12; reader++ {
		author("hide-posts", reader)
	}
	author("restore-posts", 10)

	for _, title := range titles[:6] {
		novel("reject", title)
	}
	novel("approve", titles[1])
	novel("approve", titles[2])
	novel("publish", titles[2])
	novel("publish", titles[6])
	novel("edit", titles[6], "--synopsis=As the host has it.", "--genre=one", "--genre=two")
	novel("publish", "A Title That Only the Host Has", "--author=Host")
	novel("reject", "A Title That Nobody May Import")
	novel("reject", "A Title That Is Free Again")
	novel("approve", "A Title That Is Free Again")

	add("integration", "create", "Somebody Else", "--capability=posts", "--posts-per-minute=7")
	add("integration", "review", "Somebody Else", "on")
	add("integration", "disable", "Somebody Else")
	add("key", "issue", "Somebody Else")
	add("staff", "create", "Ada")
	add("auditor", "create", "Grace")

	// One who was linked and hidden, one who was blocked and stays so, one of whom staff have never heard.
	author("erase", 9)
	author("erase", 0)
	author("erase", 15)
	return list
}
