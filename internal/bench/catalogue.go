package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"novelgate/internal/bench/catalogue"
)

// CatalogueCommand is `bench catalogue`.
type CatalogueCommand struct {
	CSV         string `name:"csv" required:"" type:"existingfile" placeholder:"FILE" help:"CSV file with the columns title, authors, language_code, image_url and, for the idempotency keys, book_id."`
	URL         string `name:"url" required:"" placeholder:"URL" help:"Address of the service."`
	Key         string `required:"" env:"NOVELGATE_API_KEY" placeholder:"KEY" help:"API key of an integration with both capabilities."`
	Connections int    `default:"16" help:"Requests in flight at a time."`
	Comments    int    `default:"50000" help:"How many comments to import."`
	Repeat      bool   `default:"true" negatable:"" help:"Then send everything once more: all that was accepted must be recognised."`
}

var errNotRecognised = errors.New("the repetition was not recognised as such")

// Run prints what became of the novels and the comments.
func (c *CatalogueCommand) Run(in *invocation) error {
	file, err := os.Open(c.CSV)
	if err != nil {
		return fmt.Errorf("open the catalogue: %w", err)
	}
	defer func() { _ = file.Close() }()
	novels, err := catalogue.Read(file)
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: c.Connections}
	defer transport.CloseIdleConnections()
	client := &catalogue.Client{
		URL: c.URL, APIKey: c.Key, Connections: max(c.Connections, 1),
		HTTP: &http.Client{Transport: transport, Timeout: time.Minute}, Now: in.now,
	}
	if err := c.load(in, client, novels, ""); err != nil || !c.Repeat {
		return err
	}
	return c.load(in, client, novels, " again")
}

// load sends everything. What is sent again must not be done again.
func (c *CatalogueCommand) load(
	in *invocation, client *catalogue.Client, novels []catalogue.Novel, again string,
) error {
	sent, titles, err := client.Novels(in.ctx, novels)
	if err != nil {
		return err
	}
	if err := in.print(sent.Text("novels" + again)); err != nil {
		return err
	}
	posted, err := client.Comments(in.ctx, titles, 0, c.Comments)
	if err != nil {
		return err
	}
	if err := in.print(posted.Text("comments" + again)); err != nil || again == "" {
		return err
	}
	// Novels that belong to somebody else leave no record, so they repeat rather than replay.
	fresh := sent.Created + sent.Updated + posted.Created
	if fresh > 0 || sent.Mismatched+posted.Mismatched > 0 {
		return fmt.Errorf("%w: %d were carried out again, %d differed", errNotRecognised, fresh,
			sent.Mismatched+posted.Mismatched)
	}
	return nil
}
