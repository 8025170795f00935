package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/client"
	"novelgate/commands/refusals"
	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/internal/auth"
)

// StaffFlags are the flags of commands of staff.
type StaffFlags struct {
	CommonFlags
	ServiceFlags
}

// ServiceFlags select a running service in place of the database.
type ServiceFlags struct {
	URL      string `env:"NOVELGATE_URL" placeholder:"URL" help:"Address of a running service: work through it with a staff key (for events also the key of an auditor), without the database."`
	KeyFile  string `env:"NOVELGATE_KEY_FILE" placeholder:"FILE" help:"File with the key for --url (default: the key in NOVELGATE_KEY)."`
	Insecure bool   `help:"Send the staff key to another machine by http, too."`
}

// AfterApply passes the flags on; kong calls it. What is typed wins over NOVELGATE_URL.
func (f ServiceFlags) AfterApply(parsed *kong.Context, env *environment) error {
	typed := map[string]bool{}
	for _, step := range parsed.Path {
		if step.Flag != nil {
			typed[step.Flag.Name] = true
		}
	}
	switch database := typed["database-url"] || typed["data-dir"]; {
	case database && typed["url"]:
		return errors.New("--url excludes --database-url and --data-dir: a command works through a service or on a database")
	case database:
		f.URL = ""
	}
	env.service = f
	return nil
}

// open returns the commands of staff through the service.
func (f ServiceFlags) open(onRetry func(err error, wait time.Duration)) (*staff.Remote, error) {
	u, err := parseHTTP("--url", f.URL)
	if err != nil {
		return nil, err
	}
	address, _ := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && !address.IsLoopback() && !f.Insecure {
		return nil, errors.New("--url: http would show the staff key to the network: use https, or allow it with --insecure")
	}
	key, err := f.key()
	if err != nil {
		return nil, err
	}
	service, err := client.New(f.URL, key, client.WithRetryFunc(onRetry))
	return &staff.Remote{Client: service}, err
}

// key returns the staff key. No flag takes it, because other users see command lines.
func (f ServiceFlags) key() (string, error) {
	key := os.Getenv("NOVELGATE_KEY")
	if f.KeyFile != "" {
		text, err := os.ReadFile(f.KeyFile)
		if err != nil {
			return "", fmt.Errorf("--key-file: %w", err)
		}
		key = string(text)
	}
	if key = strings.TrimSpace(key); key == "" {
		return "", errors.New("--url or NOVELGATE_URL needs a staff key in NOVELGATE_KEY, or in the file of --key-file")
	}
	return key, nil
}

// staffService executes the commands of staff: a *staff.Staff on the database, or a *staff.Remote through a service.
type staffService interface {
	Integration(ctx context.Context, idOrName string) (staff.Integration, error)
	IntegrationWithHistory(ctx context.Context, idOrName string) (staff.Integration, error)
	ListIntegrations(ctx context.Context, after uuid.UUID, limit int) ([]staff.Integration, error)
	RegisterIntegration(
		ctx context.Context, name string, change principal.Change,
	) (staff.Integration, staff.Key, auth.Secret, error)
	ChangeIntegration(ctx context.Context, id uuid.UUID, change principal.Change) (staff.Integration, error)

	ListRefusals(ctx context.Context, f refusals.Filter) ([]refusals.Refusal, error)

	ListKeys(ctx context.Context, integrationID, after uuid.UUID, limit int) ([]staff.Key, error)
	IssueKey(ctx context.Context, integrationID uuid.UUID, lifetime time.Duration) (staff.Key, auth.Secret, error)
	RotateKey(ctx context.Context, keyID uuid.UUID, overlap time.Duration) (staff.Key, auth.Secret, error)
	RevokeKey(ctx context.Context, keyID uuid.UUID, reason string) (staff.Key, error)

	Novel(ctx context.Context, title string) (staff.Novel, error)
	NovelWithHistory(ctx context.Context, id uuid.UUID) (staff.Novel, error)
	ListNovels(ctx context.Context, f staff.NovelFilter) ([]staff.Novel, error)
	PublishNovel(ctx context.Context, title string, fields novel.Fields, reason string) (staff.Novel, error)
	EditNovel(ctx context.Context, id uuid.UUID, fields novel.Fields, reason string) (staff.Novel, error)
	ApproveNovel(ctx context.Context, title, reason string) (staff.Novel, error)
	RejectNovel(ctx context.Context, title, reason string) (staff.Novel, error)

	Post(ctx context.Context, id uuid.UUID) (staff.Post, error)
	ListPosts(ctx context.Context, f staff.PostFilter) ([]staff.ListedPost, error)
	DecidePosts(ctx context.Context, decision string, ids []uuid.UUID, reason string) (staff.Decisions, error)
	HidePost(ctx context.Context, id uuid.UUID, reason string) (staff.Post, error)
	RestorePost(ctx context.Context, id uuid.UUID, reason string) (staff.Post, error)
	DismissReports(ctx context.Context, id uuid.UUID, reason string) (staff.Post, error)

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
	if e.service.URL == "" {
		s, err := e.staffOnDatabase(ctx)
		if err != nil {
			return err
		}
		return e.showOf(ctx, s, command)
	}
	s, err := e.service.open(e.tellWaiting())
	if err != nil {
		return err
	}
	return e.showOf(ctx, s, command)
}

func (e *environment) showOf(ctx context.Context, s staffService, command func(s staffService) (result, error)) error {
	r, err := command(s)
	if err != nil {
		err = e.advise(ctx, s, err)
	}
	return e.show(r, err)
}

// tellWaiting returns a function that says on standard error why the program waits for a service, of each cause at most
// once a minute.
func (e *environment) tellWaiting() func(err error, wait time.Duration) {
	told := map[string]time.Time{}
	return func(err error, _ time.Duration) {
		kind := err.Error()
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code != "" {
			kind = refused.Code // the text differs each time
		}
		if e.now().Sub(told[kind]) > time.Minute {
			told[kind] = e.now()
			cause := strings.TrimPrefix(err.Error(), "novelgate: ") // errors of client begin with it
			fmt.Fprintln(e.stderr, "novelgate: waiting for the service:", printable(cause))
		}
	}
}

// staffOnDatabase opens the database for the commands of staff. It fails if they are to work through a service.
func (e *environment) staffOnDatabase(ctx context.Context) (*staff.Staff, error) {
	if e.service.URL != "" {
		return nil, fmt.Errorf("%s %s needs the database: a staff key is not enough. Run it where the database can be "+
			"reached, without --url and NOVELGATE_URL", e.noun, e.verb)
	}
	pool, err := e.pool(ctx)
	if err != nil {
		return nil, err
	}
	return e.newStaff(pool), nil
}
