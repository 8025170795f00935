package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"novelgate/internal/apikey"
)

func TestCreatedIntegrationIsShownAndListed(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	name := Unique("Created")
	created := s.CreateIntegration(t, name, "--capability", "posts", "--posts-per-minute", "7", "--novels-per-minute", "8",
		"--novel-updates-per-minute", "9", "--review")
	if secret, err := apikey.Parse(created.APIKey); err != nil || secret.Kind() != apikey.Partner {
		t.Errorf("API key: %v", err)
	}
	want := Integration{
		IntegrationID: created.IntegrationID, Name: name, Enabled: true, Capabilities: []string{"posts"},
		PostsPerMinute: 7, NovelsPerMinute: 8, NovelUpdates: new(9), Review: true,
	}
	byName, byID := s.Integration(t, "show", name), s.Integration(t, "show", created.IntegrationID)
	listed := s.Integrations(t)
	at := slices.IndexFunc(listed, func(i Integration) bool { return i.IntegrationID == created.IntegrationID })
	if at < 0 {
		t.Fatal("integration list leaves it out")
	}
	for where, got := range map[string]Integration{
		"show by name": byName, "show by id": byID, "list": listed[at],
	} {
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Integration{}, "CreatedAt")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", where, diff)
		}
		if age := time.Since(got.CreatedAt); age < -time.Minute || age > time.Hour {
			t.Errorf("%s: created at %v", where, got.CreatedAt)
		}
	}
}

func TestProjectionsRun(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	s.NewPartner(t).Import(t, Key(), Comment(Unique("Projected"))).WantPost(t, 201)
	names := map[string]bool{}
	for _, projection := range s.Projections(t) {
		names[projection.Name] = true
		if projection.State != "running" || projection.Error != nil {
			t.Errorf("projection %+v, want it running without an error", projection)
		}
	}
	for _, name := range []string{"posts", "authors", "novels", "activity"} {
		if !names[name] {
			t.Errorf("projection list leaves out %s", name)
		}
	}
	s.Refused(t, "projection", "retry", "nonsense")
}
